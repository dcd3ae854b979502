use super::{App, ROUTES, router};
use crate::config::Listener;
use crate::error::AgentError;
use crate::node::Node;
use crosstalk_serve::{Background, Names, Rules, ServerMetrics};
use std::net::SocketAddr;
use std::sync::Arc;

/// Nothing is sent to the agent but questions: a longer head is answered with 431.
const RULES: Rules = Rules {
    essential: &[],
    written: &[],
    longest_head: Some(16 * 1024),
    on_refusal: |_, response| response,
};

const NAMES: Names = Names {
    prefix: "crosstalk_agent_http",
    requests: "crosstalk_agent_http_requests",
    route: "handler",
    exact_codes: false,
};

/// Answers HTTP about a node until it is dropped.
#[derive(Debug)]
pub struct Server(Background);

impl Server {
    /// Listens on `address`; port 0 takes a free one.
    ///
    /// # Errors
    /// If the address cannot be had, a file of the settings cannot be used, or no thread can be made.
    pub fn start(
        node: Arc<Node>,
        address: SocketAddr,
        settings: &Listener,
    ) -> Result<Self, AgentError> {
        let metrics = ServerMetrics::new(NAMES, &ROUTES);
        let server = crosstalk_serve::Server::bind(address, settings, RULES, metrics)?;
        let routes = router(App { node: Arc::clone(&node), server: server.metrics() });
        Ok(Self(Background::start(server, routes, move || {
            node.clock_steps();
        })?))
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.0.address()
    }
}
