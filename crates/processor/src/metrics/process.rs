//! What this process itself costs.

use crosstalk_host::ProcStat;
use crosstalk_serve::Families;
use std::fmt;

pub(super) fn write(families: &mut Families<'_>) -> fmt::Result {
    let stat = ProcStat::own();
    if let Some(ns) = stat.as_ref().and_then(ProcStat::cpu_ns) {
        families.counter("process_cpu_seconds", "CPU time of this process", ns as f64 / 1e9)?;
    }
    if let Some(bytes) = stat.as_ref().and_then(ProcStat::resident_bytes) {
        let help = "Resident memory of this process";
        families.gauge("process_resident_memory_bytes", help, bytes as f64)?;
    }
    Ok(())
}
