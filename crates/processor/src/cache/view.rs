//! The caches as `GET /pods/cache` and `GET /pods/workload/cache` show them.

use std::collections::{BTreeMap, HashMap};

use crosstalk_inventory::Snapshot;

/// Node, device label, device: pod name and UID.
pub type DeviceView<'a> = BTreeMap<&'a str, BTreeMap<&'a str, BTreeMap<&'a str, [&'a str; 2]>>>;

/// Device to pod.
pub fn device_view(snapshot: &Snapshot) -> DeviceView<'_> {
    let mut view = DeviceView::new();
    for (device, pod) in snapshot.devices() {
        let of_node = view.entry(&device.node).or_default();
        let devices = of_node.entry(&device.label).or_default();
        devices.insert(&device.device, [&pod.name, &pod.uid]);
    }
    view
}

/// Pod to workloads: name and UID of each. A name that several namespaces use is shown as `namespace/name`, so that no
/// pod hides another.
pub fn workload_view(snapshot: &Snapshot) -> BTreeMap<String, Vec<[&str; 2]>> {
    let mut namespaces: HashMap<&str, Vec<&str>> = HashMap::new();
    let there = || snapshot.pods().filter(|pod| snapshot.is_there(pod));
    for pod in there() {
        let known = namespaces.entry(&pod.name).or_default();
        if !known.contains(&&*pod.namespace) {
            known.push(&pod.namespace);
        }
    }
    let mut view = BTreeMap::new();
    // Remembered pods come first, so that a living one of the same name takes the place.
    for pod in there().filter(|pod| !pod.workloads.is_empty()) {
        let shared = namespaces.get(&*pod.name).is_some_and(|known| known.len() > 1);
        let key =
            if shared { format!("{}/{}", pod.namespace, pod.name) } else { pod.name.to_string() };
        let workloads = pod.workloads.iter().map(|workload| [&*workload.name, &*workload.uid]);
        view.insert(key, workloads.collect());
    }
    view
}
