//! A network of a test's own, for containers that are to be reached.
#![allow(dead_code, clippy::unwrap_used, unreachable_pub)]

use crate::engine;

/// A bridge that leads nowhere but to containers; the addresses are those kept for benchmarks (RFC 2544).
pub struct Bridge {
    pub name: String,
    pub address: String,
}

impl Bridge {
    pub fn new() -> Result<Self, String> {
        let id = std::process::id();
        let (name, address) =
            (format!("ctb{}", id % 1_000_000), format!("198.18.{}.1", id % 254 + 1));
        engine::run("ip", &["link", "add", &name, "type", "bridge"])?;
        let bridge = Self { name, address };
        engine::run(
            "ip",
            &["addr", "add", &format!("{}/24", bridge.address), "dev", &bridge.name],
        )?;
        engine::run("ip", &["link", "set", &bridge.name, "up"])?;
        Ok(bridge)
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = engine::run("ip", &["link", "del", &self.name]);
    }
}
