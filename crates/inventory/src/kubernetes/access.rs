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
    pub(super) fn longest_silence(&self) -> Duration {
        self.watch_timeout + CONNECT_TIMEOUT.min(self.watch_timeout)
    }

    pub(super) async fn access(&self) -> Result<Config, Failure> {
        let inside = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
        let kubeconfig = match &self.kubeconfig {
            Some(path) => Some(Kubeconfig::read_from(path).map_err(|error| unusable(&error))?),
            None if inside => None,
            None => Kubeconfig::from_env().map_err(|error| unusable(&error))?,
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
            TokenFile::open(Path::new(path))?;
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
    Failure { kind, found: found.replace("  ", " "), fix: fix.to_owned() }
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
