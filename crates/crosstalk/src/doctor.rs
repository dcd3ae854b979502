//! `crosstalk doctor`.

mod cache;

use crate::table::{Align, render};
use anyhow::Result;
use crosstalk_coldmem::{ColdBoundary, Probed};
use crosstalk_counters::probe;
use crosstalk_host::{Capability, Cpu, HostRoot, Kernel, Verdict};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sudo crosstalk doctor
  crosstalk doctor --json | jq '.capabilities[] | select(.verdict != \"ok\")'")]
pub(crate) struct Args {
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Where resctrl is mounted [default: where the host has it]
    #[arg(long, value_name = "DIR")]
    resctrl_root: Option<PathBuf>,
    /// Where the host's /proc and /sys are, when not at the root
    #[arg(long, value_name = "DIR", default_value = "/")]
    host_root: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let host = HostRoot::new(&args.host_root);
    let (kernel, cpu) = (Kernel::read(&host), Cpu::read(&host));
    let mut found = probe(&host);
    found.extend(cache::probe(&host, args.resctrl_root.as_deref()));
    let cold = crosstalk_coldmem::probe(&host, &ColdBoundary::default());
    found.extend(cold.iter().map(|probed| probed.capability.clone()));
    if args.json {
        let report =
            json!({ "kernel": kernel, "cpu": cpu, "capabilities": found, "cold_memory": cold });
        println!("{report:#}");
    } else {
        print_table(&kernel, &cpu, &found, &cold);
    }
    Ok(ExitCode::SUCCESS)
}

fn print_table(kernel: &Kernel, cpu: &Cpu, found: &[Capability], cold: &[Probed]) {
    let or_unknown = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
    println!(
        "{} on {}: {} cores{}\n",
        or_unknown(&kernel.release),
        or_unknown(&cpu.model),
        cpu.cores.len(),
        if cpu.virtualized { ", virtual machine" } else { "" },
    );
    let rows: Vec<Vec<String>> = found
        .iter()
        .map(|c| vec![c.verdict.to_string(), c.name.to_owned(), c.found.clone()])
        .collect();
    let header = [("", Align::Left), ("capability", Align::Left), ("found", Align::Left)];
    print!("{}", render(&header, &rows));
    println!("\nWhat tells how long memory has been idle:");
    for Probed { backend, resolution, overhead, warm_up, .. } in cold {
        println!("  {backend}: {resolution}; costs {overhead}; {warm_up}");
    }
    let fixes: Vec<&Capability> = found.iter().filter(|c| c.fix.is_some()).collect();
    if !fixes.is_empty() {
        println!("\nWhat would help:");
    }
    for capability in fixes {
        println!("  {}: {}", capability.name, capability.fix.as_deref().unwrap_or_default());
    }
    if found.iter().any(|c| c.verdict == Verdict::Required) {
        println!("\nNothing can be recorded until what is marked \"needed\" is there.");
    } else {
        println!("\nTry: crosstalk record --out recording --duration 10s");
    }
}
