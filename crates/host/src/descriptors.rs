use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Lets this process have so many open files, or as many as the system grants; answers how many that is.
///
/// A counter is a descriptor for every core, a monitored group several for every cache, a connection one: the thousand
/// that a process starts with are soon gone.
pub fn raise_descriptor_limit(wanted: u64) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted) {
        let current = limit.maximum.map_or(wanted, |most| most.min(wanted));
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(current), ..limit });
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_to_what_is_granted_and_never_lowered() {
        let before = getrlimit(Resource::Nofile);
        let most = before.maximum.unwrap_or(1 << 20);
        assert_eq!(raise_descriptor_limit(1), before.current.unwrap_or(u64::MAX));
        assert_eq!(raise_descriptor_limit(most), most.max(before.current.unwrap_or(u64::MAX)));
    }
}
