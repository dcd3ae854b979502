//! What a recording says about the machine it was made on, and about itself.

use crosstalk_interference::{CoreIds, CorePlace, Topology};
use crosstalk_recording::Metadata;
use serde_json::Value;

/// The columns' meaning that this analysis was written for.
const SCHEMA_VERSION: u64 = 2;

/// Length of a slot.
pub(crate) fn slot_ns(about: &Metadata) -> u64 {
    about.get("slot_ns").and_then(Value::as_u64).filter(|ns| *ns > 0).unwrap_or(1_000_000)
}

/// Which cores share what, as the recording says; where it does not, all share a cache.
pub(crate) fn topology(about: &Metadata) -> Topology {
    Topology::of_cores(cores(about))
}

/// The place of every logical CPU, by its number; none where the recording does not say.
pub(crate) fn places(about: &Metadata) -> Vec<CorePlace> {
    CorePlace::of_cores(cores(about))
}

fn cores(about: &Metadata) -> impl Iterator<Item = CoreIds> {
    let cores = about.get("topology").and_then(|cpu| cpu.get("cores")?.as_array());
    cores.into_iter().flatten().map(|core| {
        let number = |key: &str| core[key].as_u64().map(|number| number as u32);
        CoreIds {
            id: number("id").unwrap_or(0),
            package: number("package"),
            core: number("core_id"),
            cache: number("l3_id"),
            memory: number("numa_node"),
        }
    })
}

/// What tells two machines of one name apart: no two kernels were booted in the same nanosecond.
pub(crate) fn fingerprint(about: &Metadata) -> Option<(u64, String)> {
    let boot = about.get("clock")?.get("boot_unix_ns")?.as_u64()?;
    let model = about.get("cpu_model").and_then(Value::as_str).unwrap_or_default();
    // Two recorders on one machine measure the clock anew, to the millisecond or so.
    Some((boot / 1_000_000_000, model.to_owned()))
}

/// What the recording says about itself that whoever reads a verdict should know.
pub(crate) fn caveats(about: &Metadata) -> Vec<String> {
    let mut said = Vec::new();
    match about.get("schema_version").and_then(Value::as_u64) {
        Some(SCHEMA_VERSION) | None => {}
        Some(other) => said.push(format!(
            "recorded with version {other} of the schema, read as version {SCHEMA_VERSION}: columns are taken by their names"
        )),
    }
    if about.get("topology").is_none() {
        said.push(
            "it does not say which cores share a cache: all are taken to share one".to_owned(),
        );
    }
    let counters = about.get("counters").and_then(Value::as_array);
    let absent: Vec<&str> = counters
        .into_iter()
        .flatten()
        .filter(|counter| !counter["absent_because"].is_null())
        .filter_map(|counter| counter["column"].as_str())
        .collect();
    if !absent.is_empty() {
        said.push(format!(
            "not counted on this machine: {}; costs are times per wake-up or per unit of progress",
            absent.join(", ")
        ));
    }
    let clock = about.get("clock");
    let steps = clock.and_then(|clock| clock.get("steps")?.as_array()).map_or(0, Vec::len);
    if steps > 0 {
        said.push(format!(
            "the clock was set, or the machine slept, {steps} times meanwhile; slots keep the time of the start"
        ));
    }
    // Losses elsewhere, such as on the way to another source, are not in the files' way.
    let lost = about.get("loss").and_then(Value::as_array).into_iter().flatten();
    let lost = lost.filter(|loss| {
        loss["dataset"] == "tasks"
            && ["kernel ring", "recorder", "file"].iter().any(|place| loss["place"] == *place)
    });
    let lost: u64 = lost.filter_map(|loss| loss["rows"].as_u64()).sum();
    if lost > 0 {
        said.push(format!("{lost} rows of tasks were lost while recording"));
    }
    let gaps = about.get("counters_gaps").and_then(Value::as_array).map_or(0, Vec::len);
    if gaps > 0 {
        said.push(format!("the counters stood still {gaps} times meanwhile (counters_gaps)"));
    }
    if about.get("recovered").is_some() {
        said.push("the recorder was killed; its files were recovered".to_owned());
    }
    said
}
