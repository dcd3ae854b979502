//! Where the API is and how we prove who we are: a kubeconfig file, or the service account of the pod we run in.

use super::Kubernetes;
use super::pulse::{Around, Pulse};
use super::token::TokenFile;
use crate::source::{Failure, FailureKind};
use hyper::header::{HeaderValue, USER_AGENT};
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::watcher;
use kube::{Client, Config};
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Time for a connection to be made.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

const AGENT: &str = concat!("crosstalk/", env!("CARGO_PKG_VERSION"));

impl Kubernetes {
    /// A client with what the files say now: tokens and certificates may have been renewed since the last one.
    ///
    /// # Errors
    /// What says where the API is, or who we are, is not there or cannot be used.
    pub async fn client(&self) -> Result<Client, Failure> {
        self.client_with(Pulse::new()).await
    }

    /// As [`Kubernetes::client`], noting what comes of pods.
    pub(super) async fn client_with(&self, pulse: Pulse) -> Result<Client, Failure> {
        let mut config = self.access().await?;
        // A client that reads the file itself would send an empty one along, and a line end too.
        let token = config.auth_info.token_file.take();
        let token =
            token.map(|path| TokenFile::open(Path::new(&path)).map(Arc::new)).transpose()?;
        let around = Around { pulse, token };
        let builder = ClientBuilder::try_from(config).map_err(|error| unusable(&error))?;
        Ok(builder.with_layer(&around).build())
    }

    /// A watch is asked to end by itself after its time; one that says nothing for longer than that is dead.
    pub(crate) fn longest_silence(&self) -> Duration {
        self.watch_timeout + CONNECT_TIMEOUT.min(self.watch_timeout)
    }

    pub(super) async fn access(&self) -> Result<Config, Failure> {
        let inside = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
        let kubeconfig = match &self.kubeconfig {
            Some(path) => Some(read(path)?),
            None if inside => None,
            None => match std::env::var_os("KUBECONFIG") {
                Some(list) => listed(&list)?,
                None => None,
            },
        };
        let mut config = match kubeconfig {
            Some(kubeconfig) => {
                let options = KubeConfigOptions::default();
                let loaded = Config::from_custom_kubeconfig(kubeconfig, &options).await;
                loaded.map_err(|error| unusable(&error))?
            }
            None if inside => Config::incluster().map_err(|error| unusable(&error))?,
            None => {
                return Err(Failure::away(
                    "not inside a cluster (KUBERNETES_SERVICE_HOST is not set)",
                    "give a kubeconfig or set KUBECONFIG",
                ));
            }
        };
        if let Some(path) = &config.auth_info.token_file {
            // One that is empty now may be written at this moment: that is for whoever wants a client.
            TokenFile::check(Path::new(path))?;
            // The file is what is renewed; a token beside it is older.
            config.auth_info.token = None;
        }
        config.headers.push((USER_AGENT, HeaderValue::from_static(AGENT)));
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.read_timeout = Some(self.longest_silence());
        config.reset_reader_on_write = true;
        // What fails is asked for again from here, where it is counted and told.
        config.default_retry = false;
        Ok(config)
    }
}

/// Several kubeconfig files put together, as `kubectl` does: what an earlier one says stands, and one that is not there is
/// passed over unless all are.
fn listed(list: &OsStr) -> Result<Option<Kubeconfig>, Failure> {
    let paths: Vec<_> =
        std::env::split_paths(list).filter(|path| !path.as_os_str().is_empty()).collect();
    let there = paths.iter().filter(|path| path.exists()).count();
    let mut merged: Option<Kubeconfig> = None;
    for path in paths.iter().filter(|path| there == 0 || path.exists()) {
        let next = read(path)?;
        merged = Some(match merged {
            Some(before) => before.merge(next).map_err(|error| unusable(&error))?,
            None => next,
        });
    }
    Ok(merged)
}

/// A kubeconfig file. What is wrong in it is told with its name, which the library's own error leaves out.
fn read(path: &Path) -> Result<Kubeconfig, Failure> {
    Kubeconfig::read_from(path).map_err(|error| {
        let found = format!("{}: {}", path.display(), with_causes(&error));
        Failure::away(found, "correct the kubeconfig, or what it names")
    })
}

fn unusable(error: &dyn std::error::Error) -> Failure {
    Failure::away(with_causes(error), "correct the kubeconfig, or what it names")
}

/// An error with its causes, which say what matters ("connection refused"). Many of them repeat their cause already.
pub(super) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let more = inner.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = inner.source();
    }
    text
}

/// What the API answered, where it answered: its status code.
pub(super) fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// What following pods needs.
pub(super) const RIGHTS: &str =
    "let its account list and watch pods, and get the kinds that own them";

pub(super) fn failure(error: &kube::Error) -> Failure {
    api_failure(error, RIGHTS)
}

/// What the API said, without the debug form that the client's own text repeats it in. `rights` is the way out for an
/// account that may not.
pub fn api_failure(error: &kube::Error, rights: &str) -> Failure {
    let kube::Error::Api(status) = error else {
        return Failure::away(with_causes(error), "");
    };
    answered(status, rights)
}

fn answered(status: &kube::core::Status, rights: &str) -> Failure {
    let fix = match status.code {
        401 => "renew the token or certificate",
        403 => rights,
        _ => "",
    };
    let kind = if status.code == 410 { FailureKind::Gone } else { FailureKind::Away };
    let found = format!("{} {} {}", status.code, status.reason, status.message);
    let mut failure = Failure::away(found.replace("  ", " "), fix);
    failure.kind = kind;
    failure
}

/// What went wrong with a watch of pods, and whether to begin anew.
pub(super) fn judge(error: watcher::Error) -> (Failure, bool) {
    watch_failure(error, RIGHTS)
}

/// What went wrong with a watch, and whether to begin anew: with a list where the version is gone, with a new client where
/// the API does not know us. `rights` is the way out for an account that may not.
pub fn watch_failure(error: watcher::Error, rights: &str) -> (Failure, bool) {
    use watcher::Error;
    match error {
        Error::InitialListFailed(error) => (api_failure(&error, rights), true),
        Error::WatchStartFailed(error) | Error::WatchFailed(error) => {
            (api_failure(&error, rights), matches!(code(&error), Some(401 | 410)))
        }
        Error::WatchError(status) => (answered(&status, rights), matches!(status.code, 401 | 410)),
        error @ Error::NoResourceVersion => (Failure::away(error, ""), true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_kubeconfig_files_are_one_in_which_the_first_word_stands() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let cluster = write(
            "clusters",
            "current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n\
             clusters: [{name: k, cluster: {server: 'https://first/'}}]\n",
        );
        // Files name others from where they are.
        let user = write(
            "users/config",
            "current-context: other\nusers: [{name: u, user: {tokenFile: token}}]\n\
             clusters: [{name: k, cluster: {server: 'https://second/'}}]\n",
        );
        let gone = folder.path().join("gone").display().to_string();
        let list = |paths: &[&str]| listed(OsStr::new(&paths.join(":")));
        let merged = list(&[&cluster, "", &gone, &user]).unwrap().unwrap();
        assert_eq!(merged.current_context.as_deref(), Some("c"));
        let server = merged.clusters[0].cluster.as_ref().unwrap().server.as_deref();
        assert_eq!((merged.clusters.len(), server), (1, Some("https://first/")));
        let token = merged.auth_infos[0].auth_info.as_ref().unwrap().token_file.clone();
        assert_eq!(token, Some(folder.path().join("users/token").display().to_string()));
        assert!(list(&["", ""]).unwrap().is_none());
        assert!(list(&[&gone]).unwrap_err().found.contains("gone"));
        let broken = write("broken", "clusters: 7");
        assert!(list(&[&cluster, &broken]).unwrap_err().found.contains("broken"));
    }
}
