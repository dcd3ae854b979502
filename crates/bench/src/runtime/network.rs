//! What a container may send and receive, held to it by the kernel's token buckets.
//!
//! An engine offers no such limit, so both ends of the container's link get one: its own for what it sends, the host's
//! for what it receives. Both go with the link when the container does.

use crate::experiment::NetworkLimits;
use std::process::Command;

/// Bytes that may go at once: what the link takes in 10 ms, and at least a few large packets.
const LEAST_BURST: u64 = 64 << 10;

/// One end of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Link {
    name: String,
    /// Its number, and that of the other end where that is in another network.
    number: u32,
    other: Option<u32>,
}

/// Limits every link of the network that `pid` is in.
pub(super) fn limit(pid: u32, limits: &NetworkLimits) -> Result<(), String> {
    let own = links(Some(pid))?;
    let own: Vec<&Link> = own.iter().filter(|link| link.other.is_some()).collect();
    if own.is_empty() {
        return Err("it has no link to limit: its network is none, or the host's".to_owned());
    }
    let hosts = links(None)?;
    for link in own {
        if let Some(rate) = limits.send {
            shape(Some(pid), &link.name, rate)?;
        }
        let end = hosts.iter().find(|host| Some(host.number) == link.other);
        match (limits.receive, end) {
            (Some(rate), Some(end)) => shape(None, &end.name, rate)?,
            (Some(_), None) => {
                return Err(format!("the other end of {} is not on this host", link.name));
            }
            (None, _) => {}
        }
    }
    Ok(())
}

fn shape(pid: Option<u32>, link: &str, rate: u64) -> Result<(), String> {
    let burst = (rate / 100).max(LEAST_BURST);
    // tc counts bits where it says bit, and bytes in a burst.
    let (rate, burst) = (format!("{}bit", rate.saturating_mul(8)), burst.to_string());
    let words = ["qdisc", "replace", "dev", link, "root", "tbf", "rate", &rate];
    run(pid, "tc", &[&words[..], &["burst", &burst, "latency", "50ms"]].concat()).map(drop)
}

fn links(pid: Option<u32>) -> Result<Vec<Link>, String> {
    Ok(run(pid, "ip", &["-o", "link", "show"])?.lines().filter_map(parse).collect())
}

/// `7: eth0@if8: <BROADCAST,...`
fn parse(line: &str) -> Option<Link> {
    let mut words = line.splitn(3, ':');
    let number = words.next()?.trim().parse().ok()?;
    let (name, other) = match words.next()?.trim().split_once('@') {
        Some((name, other)) => (name, other.strip_prefix("if").and_then(|n| n.parse().ok())),
        None => (line.split(':').nth(1)?.trim(), None),
    };
    Some(Link { name: name.to_owned(), number, other })
}

/// Runs a program, in the network of a process if one is named; what it printed.
fn run(pid: Option<u32>, program: &str, arguments: &[&str]) -> Result<String, String> {
    let mut command = match pid {
        Some(pid) => {
            let mut command = Command::new("nsenter");
            command.args(["-t", &pid.to_string(), "-n", program]);
            command
        }
        None => Command::new(program),
    };
    let output = command.args(arguments).output();
    let output = output.map_err(|error| format!("{program}: {error}; install iproute2"))?;
    if !output.status.success() {
        let output = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{program} {}: {}", arguments.join(" "), output.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
#[path = "../../tests/support/skip.rs"]
mod skip;

#[cfg(test)]
mod tests {
    use super::skip::skip;
    use super::*;
    use std::process::{Child, Stdio};

    struct Killed(Child);

    impl Drop for Killed {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn a_link_is_read_with_its_other_end() {
        let line = "7: eth0@if8: <BROADCAST,UP> mtu 1500 qdisc noqueue state UP";
        let expected = Link { name: "eth0".to_owned(), number: 7, other: Some(8) };
        assert_eq!(parse(line), Some(expected));
        assert_eq!(parse("1: lo: <LOOPBACK> mtu 65536").unwrap().other, None);
        assert_eq!(parse("nonsense"), None);
    }

    #[test]
    fn both_ends_of_a_link_are_limited_and_a_network_without_one_is_told() {
        let inside = Command::new("unshare")
            .args(["-n", "sh", "-c", "echo ready; exec sleep 60"])
            .stdout(Stdio::piped())
            .spawn();
        let Ok(inside) = inside else { return skip("no unshare") };
        let mut inside = Killed(inside);
        let mut line = String::new();
        let out = inside.0.stdout.take().unwrap();
        let _ = std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line);
        if line.is_empty() {
            return skip("this process may not make networks");
        }
        let pid = inside.0.id();
        let limits = NetworkLimits { receive: Some(1 << 20), send: Some(2 << 20) };
        let error = limit(pid, &limits).unwrap_err();
        assert!(error.contains("no link"), "{error}");

        let host = format!("ctb{}", std::process::id() % 1_000_000);
        let target = pid.to_string();
        let words =
            ["link", "add", &host, "type", "veth", "peer", "name", "eth0", "netns", &target];
        if let Err(error) = run(None, "ip", &words) {
            return skip(error);
        }
        if Command::new("tc").arg("-V").output().is_err() {
            let _ = run(None, "ip", &["link", "del", &host]);
            return skip("no tc; apt-get install iproute2");
        }
        let limited = limit(pid, &limits);
        let sent = run(Some(pid), "tc", &["qdisc", "show", "dev", "eth0"]);
        let received = run(None, "tc", &["qdisc", "show", "dev", &host]);
        let _ = run(None, "ip", &["link", "del", &host]);
        limited.unwrap();
        let (sent, received) = (sent.unwrap(), received.unwrap());
        assert!(sent.contains("tbf") && sent.contains("rate 16777"), "{sent}");
        assert!(received.contains("tbf") && received.contains("rate 8388"), "{received}");
    }
}
