//! Whom we trust when we connect.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::error::{Error, file_error};

/// Trusts the authority in `ca_file` or, without one, those of the system.
pub(crate) fn client_config(ca_file: Option<&Path>) -> Result<ClientConfig, Error> {
    let roots = match ca_file {
        Some(path) => {
            let pem = std::fs::read(path).map_err(file_error(path))?;
            roots(&pem).map_err(|reason| Error::Tls { path: path.to_owned(), reason })?
        }
        // A machine without authorities can still speak plain HTTP.
        None => system_roots(),
    };
    Ok(with_roots(roots).with_no_client_auth())
}

fn with_roots(
    roots: RootCertStore,
) -> rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has the default protocol versions")
        .with_root_certificates(roots)
}

fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

fn roots(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    if roots.is_empty() {
        return Err("has no PEM certificate".to_owned());
    }
    Ok(roots)
}

/// HTTP and HTTPS.
pub(crate) fn connector(tls: ClientConfig) -> HttpsConnector<HttpConnector> {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(Some(Duration::from_secs(10)));
    let builder = HttpsConnectorBuilder::new().with_tls_config(tls);
    builder.https_or_http().enable_http1().wrap_connector(http)
}
