//! The structures of `bpf/shared.h`, field by field. A test compares them with the BTF of the
//! compiled object.

use bytemuck::{Pod, Zeroable};

pub(crate) const ROWS: usize = 128;
pub(crate) const COUNTERS: usize = 3;
pub(crate) const LOSSES: usize = 1024;
pub(crate) const VISITS: usize = 4096;
pub(crate) const IDLE: u32 = u32::MAX;
/// The row that processes share when a slot has more of them than rows.
pub(crate) const OVERFLOW_ROW: usize = 0;

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub(crate) struct Count {
    pub(crate) value: u64,
    pub(crate) enabled: u64,
    pub(crate) running: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub(crate) struct Row {
    pub(crate) start_boottime_ns: u64,
    pub(crate) cgroup_id: u64,
    pub(crate) on_cpu_ns: u64,
    pub(crate) runq_wait_ns: u64,
    pub(crate) counters: [Count; COUNTERS],
    pub(crate) comm: [u8; 16],
    pub(crate) pid: u32,
    pub(crate) switches: u32,
    pub(crate) voluntary_switches: u32,
    pub(crate) page_faults: u32,
    pub(crate) migrations: u32,
    pub(crate) parent: u32,
}

/// `struct ct_batch` without its rows.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub(crate) struct BatchHead {
    pub(crate) slot_start_ns: u64,
    pub(crate) idle_ns: u64,
    pub(crate) tick_late_ns: u64,
    pub(crate) tail_slots: u64,
    pub(crate) tail_counters: [Count; COUNTERS],
    pub(crate) tail_page_faults: u32,
    pub(crate) tail_row: u32,
    pub(crate) core: u32,
    pub(crate) events: u32,
    pub(crate) ticked: u32,
    pub(crate) overflowed: u32,
    pub(crate) rows: u32,
    pub(crate) unused: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub(crate) struct Loss {
    pub(crate) slot_start_ns: u64,
    pub(crate) tail_slots: u64,
    pub(crate) rows: u32,
    pub(crate) events: u32,
    pub(crate) tail_idle: u32,
    pub(crate) unused: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub(crate) struct Visit {
    pub(crate) run_delay: u64,
    pub(crate) tid: u32,
    pub(crate) migrations: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct CoreState {
    pub(crate) since_ns: u64,
    pub(crate) slot_end_ns: u64,
    pub(crate) flushes: u64,
    pub(crate) produced_rows: u64,
    pub(crate) merged_rows: u64,
    pub(crate) storage_failures: u64,
    pub(crate) losses_written: u64,
    pub(crate) losses_read: u64,
    pub(crate) losses_dropped: u64,
    pub(crate) losses_dropped_rows: u64,
    pub(crate) page_faults_in: u64,
    pub(crate) voluntary_in: u64,
    pub(crate) task: u64,
    pub(crate) ran_in: u64,
    pub(crate) unseen_switches: u64,
    pub(crate) clock_offset_ns: u64,
    pub(crate) current: u32,
    pub(crate) timer_armed: u32,
    pub(crate) counters_in: [Count; COUNTERS],
    pub(crate) index: [u8; 256],
    pub(crate) visits: [Visit; VISITS],
    pub(crate) losses: [Loss; LOSSES],
    pub(crate) batch: BatchHead,
    pub(crate) rows: [Row; ROWS],
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub(crate) struct Settings {
    pub(crate) slot_ns: u64,
    pub(crate) clock_offset_ns: u64,
    pub(crate) counters_open: u32,
    pub(crate) follow_runq: u32,
    pub(crate) slot_timer: u32,
    pub(crate) cgroup_v1: u32,
    pub(crate) own_pid: u32,
    pub(crate) unused: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub(crate) struct Control {
    pub(crate) start_ns: u64,
    pub(crate) next_timer: u32,
    pub(crate) unused: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use libbpf_rs::btf::types::Struct;
    use libbpf_rs::btf::{Btf, BtfType};
    use std::mem::{offset_of, size_of};

    fn in_object<'a>(btf: &'a Btf<'a>, name: &str) -> Struct<'a> {
        (1..btf.len() as u32)
            .filter_map(|id| btf.type_by_id::<BtfType<'_>>(id.into()))
            .filter(|ty| ty.name().is_some_and(|n| n == name))
            .find_map(|ty| Struct::try_from(ty).ok())
            .unwrap_or_else(|| panic!("{name} is not in the object's BTF"))
    }

    fn offsets(ty: &Struct<'_>) -> Vec<(String, usize)> {
        use libbpf_rs::btf::types::MemberAttr;
        ty.iter()
            .map(|m| {
                let MemberAttr::Normal { offset } = m.attr else { panic!("a bit field") };
                (m.name.expect("named").to_string_lossy().into_owned(), offset as usize / 8)
            })
            .collect()
    }

    #[test]
    fn the_rust_structures_are_those_of_the_compiled_object() {
        use libbpf_rs::btf::HasSize;
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), crate::program::OBJECT).unwrap();
        let btf = Btf::from_path(file.path()).unwrap();
        let head = size_of::<BatchHead>();
        for (name, size) in [
            ("ct_row", size_of::<Row>()),
            ("ct_batch", head + size_of::<[Row; ROWS]>()),
            ("ct_loss", size_of::<Loss>()),
            ("ct_core", size_of::<CoreState>()),
            ("ct_settings", size_of::<Settings>()),
            ("ct_control", size_of::<Control>()),
        ] {
            assert_eq!(in_object(&btf, name).size(), size, "{name}");
        }
        let row = offsets(&in_object(&btf, "ct_row"));
        assert!(row.contains(&("comm".into(), offset_of!(Row, comm))), "{row:?}");
        assert!(row.contains(&("migrations".into(), offset_of!(Row, migrations))));
        assert!(row.contains(&("parent".into(), offset_of!(Row, parent))));
        let batch = offsets(&in_object(&btf, "ct_batch"));
        assert!(batch.contains(&("row".into(), head)), "{batch:?}");
        assert!(batch.contains(&("tail_row".into(), offset_of!(BatchHead, tail_row))));
        let core = offsets(&in_object(&btf, "ct_core"));
        assert!(core.contains(&("current".into(), offset_of!(CoreState, current))), "{core:?}");
        assert!(core.contains(&("losses".into(), offset_of!(CoreState, losses))));
        assert!(core.contains(&("batch".into(), offset_of!(CoreState, batch))));
    }
}
