use crate::HostRoot;

/// Bytes that went through the interfaces of a network namespace, its loopback left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Received.
    pub received_bytes: u64,
    /// Sent.
    pub sent_bytes: u64,
}

impl Traffic {
    /// Of the network that a process is in; `None` where it has nothing but a loopback, or is gone.
    #[must_use]
    pub fn of_process(host: &HostRoot, pid: u32) -> Option<Self> {
        Self::parse(&host.line(format!("/proc/{pid}/net/dev"))?)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut sum = None;
        for line in text.lines() {
            let Some((name, rest)) = line.split_once(':') else { continue };
            if name.trim() == "lo" {
                continue;
            }
            let mut words = rest.split_whitespace().map(|word| word.parse::<u64>().ok());
            let (received, sent) = (words.next()??, words.nth(7)??);
            let Self { received_bytes, sent_bytes } = sum.unwrap_or_default();
            let received_bytes = received_bytes.checked_add(received)?;
            sum = Some(Self { received_bytes, sent_bytes: sent_bytes.checked_add(sent)? });
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_interfaces_but_the_loopback_are_summed() {
        let text = "Inter-|   Receive |  Transmit\n face |bytes packets\n\
                    lo: 9 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0\n\
                    eth0: 100 2 0 0 0 0 0 0 30 1 0 0 0 0 0 0\n\
                    eth1:5 1 0 0 0 0 0 0 6 1 0 0 0 0 0 0\n";
        let sum = Traffic { received_bytes: 105, sent_bytes: 36 };
        assert_eq!(Traffic::parse(text), Some(sum));
        assert_eq!(Traffic::parse("lo: 9 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0\n"), None);
    }
}
