//! Who we are, and whom we let in.

use crate::error::ServeError;
use crate::listener::Listener;
use crosstalk_settings::{Renewed, SettingsError};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// TLS as it is now: new connections get the certificate that is in the files, open ones keep theirs.
pub(crate) type Tls = Renewed<ServerConfig>;

/// TLS as configured, or none.
pub(crate) fn open(listener: &Listener) -> Result<Option<Tls>, ServeError> {
    let (Some(cert), Some(key)) = (listener.tls_cert.clone(), listener.tls_key.clone()) else {
        return Ok(None);
    };
    let ca = listener.client_ca.clone();
    // Once for the error's own type; a renewal only has to say what is wrong.
    load(&cert, &key, ca.as_deref())?;
    let files = [Some(&cert), Some(&key), ca.as_ref()].into_iter().flatten().cloned().collect();
    let read = move || {
        load(&cert, &key, ca.as_deref()).map_err(|error| SettingsError::Invalid {
            place: "TLS".to_owned(),
            what: error.to_string(),
        })
    };
    Ok(Some(Renewed::new(files, read)?))
}

fn load(cert: &Path, key: &Path, ca: Option<&Path>) -> Result<ServerConfig, ServeError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("the provider has the default protocol versions");
    let builder = match ca {
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| unusable(path, error))?;
            }
            // Probes have no certificate: who has none is turned away request by request.
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .allow_unauthenticated()
                .build()
                .map_err(|error| unusable(path, error))?;
            builder.with_client_cert_verifier(verifier)
        }
        None => builder.with_no_client_auth(),
    };
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(key, error))?;
    builder.with_single_cert(certificates(cert)?, private).map_err(|error| unusable(cert, error))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ServeError> {
    let all = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match all.map_err(|error| unusable(path, error))? {
        none if none.is_empty() => Err(unusable(path, "has no PEM certificate")),
        some => Ok(some),
    }
}

fn unusable(path: &Path, reason: impl ToString) -> ServeError {
    ServeError::Tls { path: PathBuf::from(path), reason: reason.to_string() }
}
