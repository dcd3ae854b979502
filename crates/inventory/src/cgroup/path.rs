use crosstalk_model::Placement;

/// Reads the container and pod out of a cgroup path.
///
/// Knows Docker, containerd, CRI-O and Podman under the systemd and the cgroupfs driver. Of nested
/// containers the innermost counts.
///
/// ```
/// let id = "4f1d2c3b4a5968778695a4b3c2d1e0f00112233445566778899aabbccddeeff0";
/// let path = format!("/system.slice/docker-{id}.scope");
/// assert_eq!(crosstalk_inventory::placement_of(&path).container_id.as_deref(), Some(id));
/// assert_eq!(crosstalk_inventory::placement_of("/user.slice").container_id, None);
/// ```
pub fn placement_of(path: &str) -> Placement {
    let mut placement = Placement::default();
    for part in path.split('/') {
        if let Some(uid) = pod_uid(part) {
            placement.pod_uid = Some(uid.into());
        }
        if let Some(id) = container_id(part) {
            placement.container_id = Some(id.into());
        }
    }
    placement
}

/// The 64 hexadecimal digits of `ID`, `ENGINE-ID.scope` or `ID/...`; not those of a monitor
/// process such as `crio-conmon-ID.scope`, which runs beside the container.
fn container_id(part: &str) -> Option<&str> {
    let name = part.strip_suffix(".scope").unwrap_or(part);
    let (engine, id) = name.rsplit_once(['-', ':']).unwrap_or(("", name));
    let is_id = id.len() == 64 && id.bytes().all(|b| b.is_ascii_hexdigit());
    (is_id && !engine.contains("conmon")).then_some(id)
}

/// `podUID` (cgroupfs) or `kubepods-burstable-podUID.slice` (systemd, `-` written as `_`).
fn pod_uid(part: &str) -> Option<String> {
    let name = part.strip_suffix(".slice").unwrap_or(part);
    let uid = match name.strip_prefix("pod") {
        Some(uid) => uid,
        None => name.strip_prefix("kubepods")?.rsplit_once("-pod")?.1,
    };
    let uid = uid.replace('_', "-");
    let digits = uid.bytes().filter(u8::is_ascii_hexdigit).count();
    let is_uid = digits == 32 && uid.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    is_uid.then_some(uid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ID: &str = "4f1d2c3b4a5968778695a4b3c2d1e0f00112233445566778899aabbccddeeff0";
    const INNER: &str = "00000000000000000000000000000000000000000000000000000000000000aa";
    const UID: &str = "1b4e28ba-2fa1-11d2-883f-0016d3cca427";

    fn of(path: &str) -> (Option<String>, Option<String>) {
        let p = placement_of(path);
        (p.container_id.map(|s| s.to_string()), p.pod_uid.map(|s| s.to_string()))
    }

    #[test]
    fn every_engine_and_driver_is_understood() {
        let id = Some(ID.to_owned());
        let uid = Some(UID.to_owned());
        let flat = UID.replace('-', "_");
        for path in [
            format!("/docker/{ID}"),
            format!("/system.slice/docker-{ID}.scope"),
            format!("/machine.slice/libpod-{ID}.scope/container"),
            format!("/default/{ID}"),
            format!("/system.slice/containerd.service/{ID}"),
        ] {
            assert_eq!(of(&path), (id.clone(), None), "{path}");
        }
        for path in [
            format!("/kubepods/besteffort/pod{UID}/{ID}"),
            format!("/kubepods/pod{UID}/{ID}"),
            format!(
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{flat}.slice/cri-containerd-{ID}.scope"
            ),
            format!("/kubepods.slice/kubepods-pod{flat}.slice/crio-{ID}.scope/init.scope"),
            format!("/kubelet.slice/kubelet-kubepods.slice/pod{UID}/{ID}"),
            format!("/system.slice/k3s.service/kubepods/pod{UID}/cri-containerd:{ID}"),
        ] {
            assert_eq!(of(&path), (id.clone(), uid.clone()), "{path}");
        }
    }

    #[test]
    fn the_innermost_container_counts_and_a_monitor_is_none() {
        assert_eq!(of(&format!("/docker/{ID}/docker/{INNER}")).0.as_deref(), Some(INNER));
        assert_eq!(of(&format!("/kubepods.slice/crio-conmon-{ID}.scope")), (None, None));
        assert_eq!(of(&format!("/machine.slice/libpod-conmon-{ID}.scope")), (None, None));
    }

    #[test]
    fn a_static_pod_has_a_uid_without_dashes() {
        let uid = "0123456789abcdef0123456789abcdef";
        assert_eq!(of(&format!("/kubepods/burstable/pod{uid}/{ID}")).1.as_deref(), Some(uid));
    }

    proptest! {
        #[test]
        fn any_path_is_read_without_panic(path in "\\PC*") {
            let _ = placement_of(&path);
        }

        #[test]
        fn what_is_found_stands_in_the_path(path in "(/[a-f0-9_.:-]{0,70}){0,4}") {
            if let Some(id) = placement_of(&path).container_id {
                prop_assert!(path.contains(&*id));
            }
        }
    }
}
