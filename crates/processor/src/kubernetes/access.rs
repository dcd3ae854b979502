//! Where the API is and how we prove who we are: a kubeconfig file, or the service account of the pod we run in.

use std::path::{Path, PathBuf};

use base64::prelude::{BASE64_STANDARD, Engine};
use serde::Deserialize;

use crate::config::{Kubernetes, Secret};

/// What is needed to speak to an API server.
#[derive(Debug)]
pub(super) struct Access {
    /// `https://host:port`, without a slash at the end.
    pub(super) server: String,
    pub(super) token: Token,
    pub(super) tls: rustls::ClientConfig,
}

#[derive(Debug)]
pub(super) enum Token {
    None,
    Fixed(Secret),
    /// Read for every request: the kubelet replaces it while we run.
    File(PathBuf),
}

impl Token {
    pub(super) fn read(&self) -> Result<Option<Secret>, String> {
        match self {
            Token::None => Ok(None),
            Token::Fixed(token) => Ok(Some(token.clone())),
            Token::File(path) => {
                let text = std::fs::read_to_string(path);
                let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
                Ok(Some(Secret::new(text.trim())))
            }
        }
    }
}

const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

impl Access {
    pub(super) fn of(config: &Kubernetes) -> Result<Access, String> {
        match &config.kubeconfig {
            Some(path) => from_kubeconfig(path),
            None => from_service_account(),
        }
    }
}

fn from_service_account() -> Result<Access, String> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let (Some(host), Some(port)) =
        (variable("KUBERNETES_SERVICE_HOST"), variable("KUBERNETES_SERVICE_PORT"))
    else {
        return Err("not inside a cluster (KUBERNETES_SERVICE_HOST is not set); give cache.kubernetes.kubeconfig".to_owned());
    };
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let folder = Path::new(SERVICE_ACCOUNT);
    let authority = read(&folder.join("ca.crt"))?;
    Ok(Access {
        server: format!("https://{host}:{port}"),
        token: Token::File(folder.join("token")),
        tls: crate::tls::client_config_of_pem(Some(&authority), None)?,
    })
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Kubeconfig {
    #[serde(default)]
    current_context: String,
    #[serde(default)]
    contexts: Vec<Named<Context>>,
    #[serde(default)]
    clusters: Vec<Named<Cluster>>,
    #[serde(default)]
    users: Vec<Named<User>>,
}

#[derive(Debug, Deserialize)]
struct Named<T> {
    name: String,
    #[serde(alias = "context", alias = "cluster", alias = "user")]
    value: T,
}

#[derive(Debug, Deserialize)]
struct Context {
    cluster: String,
    #[serde(default)]
    user: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Cluster {
    server: String,
    certificate_authority: Option<PathBuf>,
    certificate_authority_data: Option<String>,
    #[serde(default)]
    insecure_skip_tls_verify: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct User {
    token: Option<Secret>,
    #[serde(rename = "tokenFile")]
    token_file: Option<PathBuf>,
    client_certificate: Option<PathBuf>,
    client_certificate_data: Option<String>,
    client_key: Option<PathBuf>,
    client_key_data: Option<Secret>,
    exec: Option<serde_yaml_ng::Value>,
}

fn from_kubeconfig(path: &Path) -> Result<Access, String> {
    let place = |reason: String| format!("{}: {reason}", path.display());
    let text = String::from_utf8(read(path)?).map_err(|error| place(error.to_string()))?;
    let config: Kubeconfig =
        serde_yaml_ng::from_str(&text).map_err(|error| place(error.to_string()))?;
    let access = config.access(path.parent().unwrap_or(Path::new(".")));
    access.map_err(place)
}

fn find<'a, T>(list: &'a [Named<T>], what: &str, name: &str) -> Result<&'a T, String> {
    let found = list.iter().find(|named| named.name == name);
    found.map(|named| &named.value).ok_or_else(|| format!("no {what} is called {name:?}"))
}

impl Kubeconfig {
    /// Paths in the file are relative to its folder.
    fn access(&self, folder: &Path) -> Result<Access, String> {
        let context = find(&self.contexts, "context", &self.current_context)?;
        let cluster = find(&self.clusters, "cluster", &context.cluster)?;
        let none = User::default();
        let user = match context.user.as_str() {
            "" => &none,
            name => find(&self.users, "user", name)?,
        };
        if cluster.insecure_skip_tls_verify {
            return Err(
                "insecure-skip-tls-verify is not supported; give certificate-authority".to_owned()
            );
        }
        if user.exec.is_some() {
            return Err(
                "users[].user.exec is not supported; use a service account token (tokenFile)"
                    .to_owned(),
            );
        }
        let authority = part(
            folder,
            cluster.certificate_authority_data.as_deref(),
            cluster.certificate_authority.as_deref(),
        )?;
        let certificate = part(
            folder,
            user.client_certificate_data.as_deref(),
            user.client_certificate.as_deref(),
        )?;
        let key_data = user.client_key_data.as_ref().map(Secret::reveal);
        let key = part(folder, key_data, user.client_key.as_deref())?;
        let identity = certificate.as_deref().zip(key.as_deref());
        Ok(Access {
            server: cluster.server.trim_end_matches('/').to_owned(),
            token: match (&user.token, &user.token_file) {
                (Some(token), _) => Token::Fixed(token.clone()),
                (None, Some(file)) => Token::File(folder.join(file)),
                (None, None) => Token::None,
            },
            tls: crate::tls::client_config_of_pem(authority.as_deref(), identity)?,
        })
    }
}

/// A PEM text that stands in the file itself, or in another.
fn part(folder: &Path, data: Option<&str>, file: Option<&Path>) -> Result<Option<Vec<u8>>, String> {
    match (data, file) {
        (Some(data), _) => {
            let decoded = BASE64_STANDARD.decode(data.trim());
            decoded.map(Some).map_err(|error| format!("base64: {error}"))
        }
        (None, Some(file)) => read(&folder.join(file)).map(Some),
        (None, None) => Ok(None),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}
