//! A database that hangs, is away, or comes back: metrics do not notice, and no training line is lost.
#![allow(clippy::unwrap_used)]

#[path = "../../store/tests/servers/mod.rs"]
#[allow(dead_code)]
mod servers;
mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crosstalk_processor::config::{Period, Secret};
use serde_json::{Value, json};
use support::Service;
use support::http::{get, send, try_get};
use support::write::write;

fn post(service: &Service, iteration: u32) -> Value {
    let record = json!({"date": 1766652000 + iteration, "log": format!("step: {iteration} loss: 2.5"),
                        "kubernetes": {"namespace_name": "ml", "pod_name": "p"}});
    let answer = send(service.address, "POST", "/logs", &[], record.to_string().as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn write_one(service: &Service) -> u16 {
    write(service.address, &[(&[("__name__", "up"), ("pod", "p")], &[(1.0, 5)])]).status
}

/// A place on the way to a server where connections can be made to hang, as behind a firewall that forgot them.
struct Proxy {
    address: SocketAddr,
    hang: Arc<Mutex<Arc<AtomicBool>>>,
}

impl Proxy {
    fn start(to: Option<SocketAddr>) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let hang: Arc<Mutex<Arc<AtomicBool>>> = Arc::default();
        let current = Arc::clone(&hang);
        std::thread::spawn(move || {
            for inner in listener.incoming().flatten() {
                let hang = Arc::clone(&current.lock().unwrap());
                let Some(to) = to else {
                    std::mem::forget(inner);
                    continue;
                };
                let outer = TcpStream::connect(to).unwrap();
                for (from, to) in [
                    (inner.try_clone().unwrap(), outer.try_clone().unwrap()),
                    (outer.try_clone().unwrap(), inner.try_clone().unwrap()),
                ] {
                    let hang = Arc::clone(&hang);
                    std::thread::spawn(move || carry(from, to, &hang));
                }
            }
        });
        Proxy { address, hang }
    }

    /// Whatever is connected hears nothing any more; who connects from now on is served.
    fn hang(&self) {
        let mut current = self.hang.lock().unwrap();
        current.store(true, Ordering::SeqCst);
        *current = Arc::default();
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, hang: &AtomicBool) {
    let mut bytes = [0; 4096];
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        if hang.load(Ordering::SeqCst) {
            std::mem::forget((from, to));
            return;
        }
        if to.write_all(&bytes[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

#[test]
fn those_who_wait_for_a_database_that_says_nothing_take_no_room_from_metrics() {
    let silent = Proxy::start(None);
    let service = Service::start(|config| {
        config.database = Secret::new(format!("postgres://me:pw@{}/x", silent.address));
        config.database_timeout = Period::millis(100);
        config.listener.requests = 16;
        config.cache.database = false;
    });
    let asking: Vec<_> = (0..40)
        .map(|_| {
            let address = service.address;
            std::thread::spawn(move || try_get(address, "/workloads").map(|answer| answer.status))
        })
        .collect();
    let mut refused = 0;
    let began = Instant::now();
    let mut rounds = 0;
    while asking.iter().any(|asking| !asking.is_finished()) {
        assert_eq!(post(&service, rounds + 1)["waiting"], 1);
        refused += u32::from(write_one(&service) != 204);
        rounds += 1;
        support::pace(std::time::Duration::from_millis(50));
    }
    assert_eq!(refused, 0, "of {rounds} in {:?}", began.elapsed());
    assert!(rounds > 5, "nobody waited for the database");
    let statuses: Vec<_> = asking.into_iter().filter_map(|asking| asking.join().unwrap()).collect();
    assert!(statuses.contains(&503) && statuses.contains(&429), "{statuses:?}");
}

#[test]
fn a_database_that_hangs_is_not_waited_for_where_another_source_knows_the_pods() {
    let silent = Proxy::start(None);
    let folder = tempfile::tempdir().unwrap();
    let pods = folder.path().join("pods.yaml");
    std::fs::write(&pods, support::PODS).unwrap();
    let service = Service::launch(|config| {
        config.database = Secret::new(format!("postgres://me:pw@{}/x", silent.address));
        config.database_timeout = Period::millis(100);
        config.cache.static_file = Some(pods.clone());
    });
    service.wait_until_ready();
    let known: &[(&str, &str)] = &[("__name__", "up"), ("namespace", "ml"), ("pod", "train-0")];
    assert_eq!(write(service.address, &[(known, &[(1.0, 5)])]).status, 204);
    assert_eq!(write_one(&service), 204, "of a pod that the file does not have");
    assert_eq!(post(&service, 1)["waiting"], 1);
    let age = "crosstalk_processor_cache_age_seconds{source=\"database\"}";
    assert_eq!(service.metric(age), f64::INFINITY);
}

#[test]
fn lines_wait_on_disk_for_a_database_that_is_away_also_through_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("not-yet/db.sqlite");
    let start = || {
        Service::start(|config| {
            config.data_dir = folder.path().join("data");
            config.database = Secret::new(format!("sqlite://{}", database.display()));
            config.cache.database = false;
        })
    };
    let service = start();
    for iteration in 1..=5 {
        assert_eq!(post(&service, iteration)["waiting"], 1);
    }
    assert!(service.metric("crosstalk_processor_log_queue_bytes") > 0.0);
    drop(service);
    let service = start();
    assert_eq!(post(&service, 6)["waiting"], 1);
    std::fs::create_dir(database.parent().unwrap()).unwrap();
    let found = support::eventually("the lines are stored", || {
        let training = get(service.address, "/workloads/ml:p/training");
        (training.status == 200)
            .then(|| training.json()["points"].as_array().unwrap().len())
            .filter(|points| *points == 6)
    });
    assert_eq!(found, 6);
    support::eventually("the queue is empty", || {
        (service.metric("crosstalk_processor_log_queue_bytes") == 0.0).then_some(())
    });
    // From here on an answer says what became of the lines.
    assert_eq!(
        post(&service, 7),
        json!({"accepted": 1, "rejected": 0, "iterations": 1, "waiting": 0, "reasons": []})
    );
}

#[test]
fn connections_that_hang_are_given_up_and_what_waited_is_stored() {
    let server = servers::Server::postgres();
    let (_, place) = server.url.rsplit_once('@').unwrap();
    let proxy = Proxy::start(Some(place.trim_end_matches('/').parse().unwrap()));
    let service = Service::start(|config| {
        let url = server.url.replace(place.trim_end_matches('/'), &proxy.address.to_string());
        config.database = Secret::new(format!("{url}{}", server.first_database));
        config.database_timeout = Period::millis(500);
        config.cache.database = false;
    });
    assert_eq!(post(&service, 1)["iterations"], 1);
    proxy.hang();
    for iteration in 2..=9 {
        post(&service, iteration);
        assert_eq!(write_one(&service), 204);
    }
    support::eventually("new connections are made and everything is stored", || {
        let training = get(service.address, "/workloads/ml:p/training");
        (training.status == 200 && training.json()["points"].as_array().unwrap().len() == 9)
            .then_some(())
    });
}
