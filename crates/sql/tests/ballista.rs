//! A scheduler and two executors gather what leads to the same verdicts, and lose none of them when one goes.
#![cfg(feature = "ballista")]
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

mod support;

use crosstalk_analysis::{Question, analyze};
use crosstalk_recording::Format;
use crosstalk_sql::{Engine, Options, Session, verdicts};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;
use support::*;
use tokio::runtime::Runtime;

/// Ports that nobody uses.
fn ports<const N: usize>() -> [u16; N] {
    let listeners = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

fn start(args: &[&str], port: u16) -> Server {
    let child = program().arg("cluster").args(args).stdout(Stdio::null()).stderr(Stdio::null());
    let mut server = Server(child.spawn().unwrap());
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert_eq!(server.0.try_wait().unwrap(), None, "{args:?} has ended");
        std::thread::yield_now();
    }
    server
}

fn cluster(work: &Path) -> (Server, Vec<Server>, Options) {
    let [scheduler, a, b, c, d] = ports();
    let address = format!("127.0.0.1:{scheduler}");
    let server = start(&["scheduler", "--listen", &address], scheduler);
    let executors = [(a, b), (c, d)].map(|(results, own)| {
        let work = work.join(results.to_string());
        std::fs::create_dir_all(&work).unwrap();
        let (results_port, own_port) = (results.to_string(), own.to_string());
        let work = work.to_str().unwrap();
        let args = ["executor", "--scheduler", &address, "--ports", &results_port, &own_port];
        start(&[&args[..], &["--cores", "1", "--work", work]].concat(), results)
    });
    let engine = Engine::Ballista(address);
    (server, executors.into(), Options { engine, ..Options::default() })
}

#[test]
fn a_cluster_gathers_what_leads_to_the_same_verdicts_and_finishes_when_an_executor_is_lost() {
    let (out, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let written = simulate(out.path(), 2, 40, Format::Parquet);
    let (_scheduler, mut executors, options) = cluster(work.path());
    let question = Question::default();
    let streamed = analyze(&place(out.path()), &question, |_| {}).unwrap();
    let gathered = verdicts::analyze(&place(out.path()), &question, &options).unwrap();
    assert_eq!(gathered.unread, Vec::<String>::new());
    assert!(!streamed.verdicts().is_empty());
    same(&streamed, &gathered);
    drop(executors.pop());
    let runtime = Runtime::new().unwrap();
    let session = runtime.block_on(Session::open(&place(out.path()), &options)).unwrap();
    let count = ask(&runtime, &session, "SELECT node, count(*) FROM tasks GROUP BY node");
    let rows: u64 = count
        .unwrap()
        .iter()
        .map(|line| line.split_once(',').unwrap().1.parse::<u64>().unwrap())
        .sum();
    assert_eq!(rows, written.task_rows);
}
