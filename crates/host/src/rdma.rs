//! RDMA devices by their places on the PCI bus: plugins of Kubernetes hand out places, exporters write names (`mlx5_0`).

use crate::HostRoot;
use std::fs;

/// The names of the RDMA devices at a place on the PCI bus (`0000:3b:00.2`); none for anything else.
///
/// ```
/// let host = crosstalk_host::HostRoot::new("/no/such/host");
/// assert!(crosstalk_host::rdma_names(&host, "0000:3b:00.2").is_empty());
/// ```
#[must_use]
pub fn rdma_names(host: &HostRoot, place: &str) -> Vec<String> {
    // What is asked for is somebody else's word, and becomes part of a path.
    if !is_place(place) {
        return Vec::new();
    }
    let folder = host.path(format!("/sys/bus/pci/devices/{place}/infiniband"));
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

/// Whether this is domain, bus, device and function; a domain has four digits or more.
fn is_place(text: &str) -> bool {
    let hex = |text: &str, digits: std::ops::RangeInclusive<usize>| {
        digits.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let mut parts = text.split(':');
    let (domain, bus, rest) = (parts.next(), parts.next(), parts.next());
    let function = rest.and_then(|rest| rest.split_once('.'));
    parts.next().is_none()
        && domain.is_some_and(|domain| hex(domain, 4..=8))
        && bus.is_some_and(|bus| hex(bus, 2..=2))
        && function.is_some_and(|(device, function)| hex(device, 2..=2) && hex(function, 1..=1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_on_the_bus_leads_to_the_names_that_exporters_write() {
        let folder = tempfile::tempdir().unwrap();
        let devices = folder.path().join("sys/bus/pci/devices");
        for device in ["0000:3b:00.2/infiniband/mlx5_4", "0000:3b:00.3/net/ens1f0v1"] {
            fs::create_dir_all(devices.join(device)).unwrap();
        }
        let host = HostRoot::new(folder.path());
        assert_eq!(rdma_names(&host, "0000:3b:00.2"), ["mlx5_4"]);
        for none in ["0000:3b:00.3", "0000:3b:00.4", "", "0", "GPU-5f1c", "../devices/0000:3b:00.2"]
        {
            assert!(rdma_names(&host, none).is_empty(), "{none}");
        }
        assert!(
            is_place("10000:e1:00.0") && !is_place("0000:3b:00.2/..") && !is_place("0000:3b:00")
        );
    }
}
