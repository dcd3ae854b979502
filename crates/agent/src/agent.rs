use crate::config::Config;
use crate::error::AgentError;
use crate::http::Server;
use crate::node::Node;
use crate::sources;
use crate::supervise::Supervised;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// The running agent: sources and server. Dropping it ends both and finishes a recording.
///
/// ```no_run
/// use crosstalk_agent::{Agent, config::Config};
///
/// let agent = Agent::start(&Config::default())?;
/// println!("http://{}/metrics?window_seconds=20", agent.address());
/// # Ok::<(), crosstalk_agent::AgentError>(())
/// ```
#[derive(Debug)]
pub struct Agent {
    server: Server,
    sources: Vec<Supervised>,
}

impl Agent {
    /// Starts every source the machine has, and listens.
    ///
    /// # Errors
    /// If the address cannot be listened on, or a thread cannot be made. A source that fails is
    /// not an error.
    pub fn start(config: &Config) -> Result<Self, AgentError> {
        raise_descriptors(config.http.connections);
        let wired = sources::all(config)?;
        let states = wired.iter().map(|(_, state)| Arc::clone(state)).collect();
        let mut node = Node::new(states, config.sampling.retention.get());
        node.follows_subjects = config.subjects.enabled;
        node.prometheus_limit = config.subjects.prometheus_limit;
        let slowest = config.sampling.slowest.max(config.sampling.period).get();
        node.fresh = (slowest * 2).max(Duration::from_secs(5));
        // Before the sources: an address already taken should be told at once.
        let server = Server::start(Arc::new(node), config.listen, &config.http)?;
        let mut sources = Vec::new();
        for (source, state) in wired {
            let Some(source) = source else { continue };
            let supervised = Supervised::start(source, state)
                .map_err(|source| AgentError::Start { what: "a source", source })?;
            sources.push(supervised);
        }
        Ok(Self { server, sources })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // All are told before the first is waited for.
        self.sources.iter_mut().for_each(Supervised::stop);
    }
}

/// A thousand connections need more descriptors than the thousand a process starts with. What
/// the system does not grant shows as accept errors.
fn raise_descriptors(connections: usize) {
    const OWN: u64 = 256;
    let limit = getrlimit(Resource::Nofile);
    let wanted = connections as u64 + OWN;
    if limit.current.is_some_and(|current| current < wanted) {
        let current = limit.maximum.map_or(wanted, |most| most.min(wanted));
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(current), ..limit });
    }
}
