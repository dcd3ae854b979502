//! Whom we trust when we connect, and how we show who we are.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::client::ResolvesClientCert;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, SignatureScheme};

use crate::error::{Error, file_error};

/// Trusts the authority in `ca_file` or, without one, those of the system; shows a certificate, given with its key, if there
/// is one.
pub(crate) fn client_config(
    ca_file: Option<&Path>,
    shown: Option<(&Path, &Path)>,
) -> Result<ClientConfig, Error> {
    let roots = match ca_file {
        Some(path) => {
            let pem = std::fs::read(path).map_err(file_error(path))?;
            roots(&pem).map_err(|reason| Error::Tls { path: path.to_owned(), reason })?
        }
        // A machine without authorities can still speak plain HTTP.
        None => system_roots(),
    };
    let config = with_roots(roots);
    match shown {
        Some((cert, key)) => {
            // Read now, so that a mistake is found at the start, and again for every connection.
            let renewed = RenewedCertificate { cert: cert.to_owned(), key: key.to_owned() };
            renewed.read()?;
            Ok(config.with_client_cert_resolver(Arc::new(renewed)))
        }
        None => Ok(config.with_no_client_auth()),
    }
}

/// A certificate and its key in files, read again for every connection: connections are few and last.
#[derive(Debug)]
struct RenewedCertificate {
    cert: PathBuf,
    key: PathBuf,
}

impl RenewedCertificate {
    fn read(&self) -> Result<CertifiedKey, Error> {
        let unusable = |path: &Path, reason: String| Error::Tls { path: path.to_owned(), reason };
        let pem = std::fs::read(&self.cert).map_err(file_error(&self.cert))?;
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
        let chain = chain.map_err(|error| unusable(&self.cert, error.to_string()))?;
        if chain.is_empty() {
            return Err(unusable(&self.cert, "has no PEM certificate".to_owned()));
        }
        let pem = std::fs::read(&self.key).map_err(file_error(&self.key))?;
        let key = PrivateKeyDer::from_pem_slice(&pem);
        let key = key.map_err(|error| unusable(&self.key, error.to_string()))?;
        let key = rustls::crypto::ring::sign::any_supported_type(&key);
        let key = key.map_err(|error| unusable(&self.key, error.to_string()))?;
        let certified = CertifiedKey::new(chain, key);
        match certified.keys_match() {
            Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::KeyMismatch)) => {
                Err(unusable(&self.key, "is not the key of the certificate".to_owned()))
            }
            _ => Ok(certified),
        }
    }
}

impl ResolvesClientCert for RenewedCertificate {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        match self.read() {
            Ok(certified) => Some(Arc::new(certified)),
            Err(error) => {
                tracing::error!(%error, "cannot show a client certificate");
                None
            }
        }
    }

    fn has_certs(&self) -> bool {
        true
    }
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
