//! `pcm-sensor-server`, asked over HTTP.

use super::{PCM, report, values};
use axum::body::Bytes;
use axum::http::Uri;
use crosstalk_collect::{About, Outlet, Source};
use crosstalk_host::{Capability, Verdict, monotonic_ns};
use crosstalk_pcm::parse_sensor_server;
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use std::error::Error;
use std::path::Path;
use std::time::Duration;
use url::Url;

/// The answer of a large machine is some 2 MB.
const LONGEST_ANSWER: usize = 16 << 20;
const TIMEOUT: Duration = Duration::from_secs(5);

pub(super) struct SensorServer {
    address: String,
    interval: Duration,
}

impl SensorServer {
    pub(super) fn new(address: &str, interval: Duration) -> Self {
        Self { address: address.to_owned(), interval }
    }

    /// `/persecond`: the mean over the server's own last second.
    fn ask(&self) -> Result<Bytes, Box<dyn Error + Send + Sync>> {
        let server = match Url::parse(&self.address) {
            Ok(url) if url.has_host() => url,
            _ => Url::parse(&format!("http://{}/", self.address))?,
        };
        let uri: Uri = server.join("/persecond/1")?.as_str().parse()?;
        // One question a second: a runtime for each costs less than a thread that waits.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let asking = async {
            let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
            let request = axum::http::Request::get(uri).header("accept", "application/json");
            let answer = client.request(request.body(Empty::new())?).await?;
            if answer.status() != 200 {
                return Err(format!("it answered with status {}", answer.status()).into());
            }
            Ok(Limited::new(answer.into_body(), LONGEST_ANSWER).collect().await?.to_bytes())
        };
        runtime.block_on(async { tokio::time::timeout(TIMEOUT, asking).await })?
    }
}

impl Source for SensorServer {
    fn about(&self) -> &'static About {
        &PCM
    }

    fn run(&mut self, out: &Outlet) -> Result<(), Capability> {
        let mut before_ns = monotonic_ns();
        while !out.pause(self.interval) {
            let body = self.ask().map_err(|error| {
                let found =
                    format!("pcm-sensor-server at {}: {}", self.address, with_causes(&*error));
                let fix = "start it, or empty sources.pcm.sensor_server";
                out.capability(Verdict::Failing, found).fix(fix)
            })?;
            let metrics = parse_sensor_server(&body)
                .map_err(|error| Capability::of_error(PCM.name, Verdict::Failing, &error))?;
            let at_ns = monotonic_ns();
            out.sample(at_ns, at_ns.saturating_sub(before_ns).max(1), &values(&metrics));
            before_ns = at_ns;
            report(Path::new("pcm-sensor-server"), &metrics, out);
        }
        Ok(())
    }
}

/// A client's error with its causes, which say what matters ("connection refused").
fn with_causes(error: &dyn Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", with_causes(cause)),
        None => error.to_string(),
    }
}
