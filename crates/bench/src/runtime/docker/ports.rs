//! Ports of this machine that containers want to be reached by.

use crate::experiment::{Container, Mistake, Port};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};

/// Whether somebody listens at a port already. An engine publishes at every address, so one of any address is in its way.
pub(super) fn is_taken(port: u16) -> bool {
    let every: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
    // Whatever else refuses us may let the engine.
    let refuses = |error: std::io::Error| error.kind() == ErrorKind::AddrInUse;
    every.into_iter().any(|address| TcpListener::bind((address, port)).is_err_and(refuses))
}

pub(super) fn taken(container: &Container, port: &Port) -> Mistake {
    let what = format!(
        "{}.port: {} is taken, somebody on this machine listens there; stop them or publish another",
        container.name, port.host
    );
    Mistake { line: Some(port.line), what }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_taken_while_somebody_listens_at_any_address() {
        for address in ["127.0.0.1:0", "0.0.0.0:0", "[::]:0"] {
            // Not every machine has addresses of both kinds.
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let port = listener.local_addr().unwrap().port();
            assert!(is_taken(port), "{address}");
        }
    }
}
