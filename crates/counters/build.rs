//! Compiles the kernel programs; the object is embedded by `src/program.rs`.

use libbpf_cargo::SkeletonBuilder;
use std::env;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let object = PathBuf::from(env::var("OUT_DIR")?).join("collector.bpf.o");
    SkeletonBuilder::new()
        .source("src/bpf/collector.bpf.c")
        .obj(object)
        // v3 (kernel 5.1) has the 32-bit jumps the verifier reasons about best.
        .clang_args(["-mcpu=v3", "-Wall", "-Werror"])
        .build()
        .map_err(|e| {
            format!("{e}\ncompiling the BPF programs needs clang: apt-get install clang")
        })?;
    println!("cargo:rerun-if-changed=src/bpf");
    Ok(())
}
