//! Other names of a node's GPUs: the kubelet knows NVIDIA's by UUID and AMD's by their place on the PCI bus, exporters call
//! them by number, serial number or, for a part of one, by card and instance.

use crate::HostRoot;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;

/// A kind of name (`gpu`, `nvidia.com/gpu` for the UUID, `serial_number`, or `mig` for a part of a card), and the name.
pub type GpuName = (&'static str, String);

/// What the drivers tell.
#[derive(Debug, Default)]
pub struct Gpus {
    /// By the kubelet's id.
    names: HashMap<String, Vec<GpuName>>,
    /// Parts of NVIDIA's cards by the number of the device file that opens them: every name of the part.
    slices: HashMap<String, Vec<GpuName>>,
}

impl Gpus {
    /// Asks the drivers.
    #[must_use]
    pub fn read(host: &HostRoot) -> Self {
        let mut gpus = Self::default();
        gpus.read_nvidia(host);
        gpus.read_amd(host);
        gpus
    }

    /// Other names of the GPU with this id.
    #[must_use]
    pub fn names(&self, id: &str) -> &[GpuName] {
        self.names.get(id).map_or(&[], Vec::as_slice)
    }

    /// The parts of cards that a process has the device files of, by all their names; none unless there are as many as
    /// were `given` to it: a container that sees all of the host's devices holds not all of them.
    #[must_use]
    pub fn slices_of(&self, host: &HostRoot, pid: u32, given: usize) -> Vec<&GpuName> {
        let files = entries(&host.path(format!("/proc/{pid}/root/dev/nvidia-caps")));
        let held: BTreeSet<&String> = files
            .iter()
            .filter_map(|file| file.strip_prefix("nvidia-cap").map(str::to_owned))
            .filter_map(|number| self.slices.get_key_value(&number).map(|(number, _)| number))
            .collect();
        match held.len() == given {
            true => held.iter().flat_map(|number| &self.slices[*number]).collect(),
            false => Vec::new(),
        }
    }

    /// As the driver tells in `/proc/driver/nvidia`: `gpus` has UUID and minor of the cards, `capabilities` which device
    /// file opens which GPU instance of them. Exporters number cards by their places on the bus, which minors need not
    /// follow.
    fn read_nvidia(&mut self, host: &HostRoot) {
        let mut cards = Vec::new();
        let folder = host.path("/proc/driver/nvidia/gpus");
        let mut addresses = entries(&folder);
        // A domain has four digits or more.
        addresses.sort_by(|one, other| (one.len(), one).cmp(&(other.len(), other)));
        for (number, address) in addresses.into_iter().enumerate() {
            let about = text(&folder.join(address).join("information"));
            let field = |name: &str| {
                let line = about.lines().find_map(|line| line.strip_prefix(name));
                line.map(|line| line.trim_start_matches(':').trim().to_owned())
            };
            if let (Some(uuid), Some(minor)) = (field("GPU UUID"), field("Device Minor")) {
                let number = number.to_string();
                self.names.insert(uuid.clone(), vec![("gpu", number.clone())]);
                // As NVIDIA's driver for resource claims names it.
                let names = vec![("gpu", number.clone()), ("nvidia.com/gpu", uuid.clone())];
                self.names.insert(format!("gpu-{minor}"), names);
                cards.push((minor, number, uuid));
            }
        }
        for (minor, number, uuid) in &cards {
            let folder = host.path(format!("/proc/driver/nvidia/capabilities/gpu{minor}/mig"));
            for instance in entries(&folder) {
                let access = text(&folder.join(&instance).join("access"));
                let file = access.lines().find_map(|line| line.strip_prefix("DeviceFileMinor:"));
                let (Some(file), Some(instance)) = (file, instance.strip_prefix("gi")) else {
                    continue;
                };
                let names = [number, uuid].map(|card| ("mig", format!("{card}/{instance}")));
                self.slices.insert(file.trim().to_owned(), names.into());
            }
        }
    }

    /// As the kernel's list of nodes for computing has them, in whose order ROCm numbers the GPUs.
    fn read_amd(&mut self, host: &HostRoot) {
        let folder = host.path("/sys/class/kfd/kfd/topology/nodes");
        let mut nodes: Vec<u32> = entries(&folder).iter().filter_map(|n| n.parse().ok()).collect();
        nodes.sort_unstable();
        let mut count = 0;
        for node in nodes {
            let about = text(&folder.join(node.to_string()).join("properties"));
            let field = |name: &str| {
                let mut words = about.lines().map(str::split_whitespace);
                let value =
                    words.find_map(|mut line| (line.next()? == name).then(|| line.next())?);
                value.and_then(|value| value.parse::<u32>().ok())
            };
            // Processors are nodes too.
            if field("simd_count").is_none_or(|count| count == 0) {
                continue;
            }
            let number = count;
            count += 1;
            let (Some(place), domain) = (field("location_id"), field("domain").unwrap_or(0)) else {
                continue;
            };
            let (bus, device, function) = (place >> 8, place >> 3 & 0x1f, place & 7);
            let address = format!("{domain:04x}:{bus:02x}:{device:02x}.{function}");
            let serial = text(&host.path(format!("/sys/bus/pci/devices/{address}/serial_number")));
            let serial = Some(serial.trim().to_owned()).filter(|serial| !serial.is_empty());
            let mut names = vec![("gpu", number.to_string())];
            names.extend(serial.map(|serial| ("serial_number", serial)));
            // Of a card that is divided, the first part has the card's own place.
            self.names.entry(address).or_insert(names);
        }
    }
}

/// The names in a folder; none where it is not there.
fn entries(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// What a file holds; nothing where it cannot be read.
fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host with these files.
    fn host(files: &[(&str, &str)]) -> (tempfile::TempDir, HostRoot) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let root = HostRoot::new(folder.path());
        (folder, root)
    }

    #[test]
    fn a_part_of_a_card_is_known_by_the_device_file_that_its_container_has() {
        let (_folder, host) = host(&[
            (
                "proc/driver/nvidia/gpus/0000:07:00.0/information",
                "GPU UUID: \t GPU-5f1c\nDevice Minor: \t 3\n",
            ),
            (
                "proc/driver/nvidia/gpus/0000:c7:00.0/information",
                "GPU UUID: \t GPU-77aa\nDevice Minor: \t 0\n",
            ),
            (
                "proc/driver/nvidia/capabilities/gpu3/mig/gi7/access",
                "DeviceFileMinor: 66\nDeviceFileMode: 292\n",
            ),
            ("proc/driver/nvidia/capabilities/gpu3/mig/gi7/ci0/access", "DeviceFileMinor: 67\n"),
            ("proc/driver/nvidia/capabilities/gpu3/mig/gi9/access", "DeviceFileMinor: 84\n"),
            ("proc/11/root/dev/nvidia-caps/nvidia-cap66", ""),
            ("proc/11/root/dev/nvidia-caps/nvidia-cap67", ""),
            ("proc/12/root/dev/nvidia-caps/nvidia-cap66", ""),
            ("proc/12/root/dev/nvidia-caps/nvidia-cap84", ""),
        ]);
        let gpus = Gpus::read(&host);
        assert_eq!(gpus.names("GPU-5f1c"), [("gpu", "0".to_owned())], "by its place on the bus");
        assert_eq!(gpus.names("GPU-77aa"), [("gpu", "1".to_owned())]);
        let claimed = [("gpu", "0".to_owned()), ("nvidia.com/gpu", "GPU-5f1c".to_owned())];
        assert_eq!(gpus.names("gpu-3"), claimed, "of a claim, by its minor");
        let slices = |pid| -> Vec<&str> {
            gpus.slices_of(&host, pid, 1).into_iter().map(|(_, name)| name.as_str()).collect()
        };
        assert_eq!(slices(11), ["0/7", "GPU-5f1c/7"]);
        assert_eq!(slices(12), [""; 0], "it was given one and sees two");
        assert_eq!(slices(13), [""; 0]);
    }

    #[test]
    fn amds_gpus_have_numbers_in_the_order_of_the_kernel_and_serial_numbers() {
        let (_folder, host) = host(&[
            ("sys/class/kfd/kfd/topology/nodes/0/properties", "cpu_cores_count 96\nsimd_count 0\n"),
            (
                "sys/class/kfd/kfd/topology/nodes/2/properties",
                "simd_count 1216\nlocation_id 49408\ndomain 0\n",
            ),
            (
                "sys/class/kfd/kfd/topology/nodes/10/properties",
                "simd_count 1216\nlocation_id 256\ndomain 1\n",
            ),
            ("sys/bus/pci/devices/0000:c1:00.0/serial_number", "692251001124\n"),
        ]);
        let gpus = Gpus::read(&host);
        let first = [("gpu", "0".to_owned()), ("serial_number", "692251001124".to_owned())];
        assert_eq!(gpus.names("0000:c1:00.0"), first);
        assert_eq!(gpus.names("0001:01:00.0"), [("gpu", "1".to_owned())]);
        assert_eq!(gpus.names("0000:00:00.0"), []);
    }
}
