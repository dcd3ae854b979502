use super::sender::Feed;
use super::*;
use crate::experiment::InfluxVersion;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};

/// A server that keeps what it is sent, head and body, and answers with `status`.
fn server(listener: TcpListener, status: u16) -> Receiver<(String, String)> {
    let (sender, bodies) = channel();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut text = Vec::new();
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = stream.read(&mut buffer) {
                text.extend(&buffer[..length]);
                let whole = String::from_utf8_lossy(&text).into_owned();
                let Some((head, body)) = whole.split_once("\r\n\r\n") else { continue };
                let length = head.lines().find_map(|line| {
                    let (key, value) = line.split_once(':')?;
                    key.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
                });
                if Some(body.len()) >= length {
                    let _ = sender.send((head.to_owned(), body.to_owned()));
                    let answer = format!(
                        "HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                    );
                    let _ = stream.write_all(answer.as_bytes());
                    break;
                }
            }
        }
    });
    bodies
}

fn database(address: SocketAddr, version: InfluxVersion) -> Database {
    Database {
        host: format!("http://{address}"),
        name: "b".to_owned(),
        user: None,
        password: None,
        org: None,
        version,
    }
}

fn sender_to(database: &Database, folder: &Path) -> (Sender, Feed) {
    let spool = Spool::open(&folder.join("spool"), "db").unwrap();
    Sender::new(Client::new(database).unwrap(), spool, Vec::new())
}

fn sender(address: SocketAddr, folder: &Path) -> (Sender, Feed) {
    sender_to(&database(address, InfluxVersion::One), folder)
}

#[test]
fn the_way_of_version_three_is_a_post_with_the_token_as_bearer() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut database = database(listener.local_addr().unwrap(), InfluxVersion::Three);
    database.password = Some(crosstalk_settings::Secret::new("apiv3_x"));
    let (sender, feed) = sender_to(&database, folder.path());
    let requests = server(listener, 204);
    feed.add(&["m,t=a v=1i 7".to_owned()]);
    drop(feed);
    let done = sender.run();
    assert_eq!((done.sent, done.lost, done.waiting), (1, 0, 0), "{done:?}");
    let (head, body) = requests.try_iter().next().unwrap();
    assert!(head.starts_with("POST /api/v3/write_lp?db=b&precision=nanosecond HTTP/1.1"), "{head}");
    assert!(head.to_lowercase().contains("authorization: bearer apiv3_x"), "{head}");
    assert_eq!(body, "m,t=a v=1i 7\n");
}

#[test]
fn what_a_server_that_is_away_misses_is_sent_in_order_when_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let place = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = place.local_addr().unwrap();
    drop(place);
    let (sender, feed) = sender(address, folder.path());
    let sending = thread::spawn(move || sender.run());
    for number in 0..5 {
        feed.add(&[format!("m a={number}i 1")]);
    }
    assert_eq!(feed.waiting(), 5);
    let bodies = server(TcpListener::bind(address).unwrap(), 204);
    drop(feed);
    let done = sending.join().unwrap();
    assert_eq!((done.sent, done.lost, done.waiting), (5, 0, 0), "{done:?}");
    let all: String = bodies.try_iter().map(|(_, body)| body).collect();
    let expected: String = (0..5).map(|number| format!("m a={number}i 1\n")).collect();
    assert_eq!(all, expected);
}

#[test]
fn a_server_that_takes_all_and_never_answers_holds_up_nobody_and_costs_no_line() {
    let folder = tempfile::tempdir().unwrap();
    // Nobody takes connections from it; the kernel does.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let (mut sender, feed) = sender(silent.local_addr().unwrap(), folder.path());
    (sender.patience, sender.last_try) = (Duration::from_secs(3), Duration::from_millis(300));
    let sending = thread::spawn(move || sender.run());
    let began = Instant::now();
    // More than a queue of the pipeline holds.
    for number in 0..2_000 {
        feed.add(&[format!("m a={number}i 1")]);
    }
    assert!(began.elapsed() < Duration::from_secs(3), "it was waited for: {:?}", began.elapsed());
    drop(feed);
    let done = sending.join().unwrap();
    assert_eq!((done.sent, done.lost, done.waiting), (0, 0, 2_000), "{done:?}");
    drop(silent);

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (sender, feed) = self::sender(listener.local_addr().unwrap(), folder.path());
    let bodies = server(listener, 204);
    drop(feed);
    assert_eq!(sender.run().sent, 2_000);
    let all: String = bodies.try_iter().map(|(_, body)| body).collect();
    let expected: String = (0..2_000).map(|number| format!("m a={number}i 1\n")).collect();
    assert_eq!(all, expected, "in order");
}

#[test]
fn what_an_earlier_run_left_is_sent_with_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = folder.path().join("old");
    let mut old = Spool::open(&place, "db").unwrap();
    assert!(old.put("m a=1i 1\nm a=2i 2\n") && old.put("m a=3i 3\n"));
    drop(old);
    let client = Client::new(&database(listener.local_addr().unwrap(), InfluxVersion::One));
    let spool = Spool::open(&folder.path().join("spool"), "db").unwrap();
    let older = vec![Spool::open(&place, "db").unwrap()];
    let (sender, feed) = Sender::new(client.unwrap(), spool, older);
    let bodies = server(listener, 204);
    feed.add(&["m a=4i 4".to_owned()]);
    drop(feed);
    let done = sender.run();
    assert_eq!((done.sent, done.caught_up, done.lost), (1, 3, 0), "{done:?}");
    let all: String = bodies.try_iter().map(|(_, body)| body).collect();
    assert_eq!(all, "m a=4i 4\nm a=1i 1\nm a=2i 2\nm a=3i 3\n");
    assert!(!place.exists(), "nothing waits there any more");
}

#[test]
fn what_a_server_refuses_for_good_is_counted_and_holds_nothing_up() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (sender, feed) = sender(listener.local_addr().unwrap(), folder.path());
    let bodies = server(listener, 400);
    feed.add(&["bad".to_owned(), "lines".to_owned()]);
    drop(feed);
    let done = sender.run();
    assert_eq!((done.sent, done.lost, done.waiting), (0, 2, 0), "{done:?}");
    assert_eq!(bodies.try_iter().count(), 1);
}

#[test]
fn lines_have_the_tags_and_fields_that_dashboards_know_and_what_is_switched_off_has_none() {
    use crate::collectors::{ContainerCacheRow, ContainerRow, CountersRow};
    use crate::experiment::{ContainerData, Experiment, Surroundings, Variables};
    use crate::roster::{Allocated, Allocation, Member};
    use crate::store::{Outcome, RunStore};
    use crosstalk_collect::Delivery as Delivered;
    use crosstalk_host::{ControlGroup, HostRoot};
    use crosstalk_model::Batch;

    let text = "benchmark: {name: x}\na: {index: 4, image: i}\nb: {index: 5, command: sh}\n";
    let around = Surroundings {
        cpus: [0].into_iter().collect(),
        path: vec!["/bin".into(), "/usr/bin".into()],
    };
    let read = Experiment::parse("e.yaml", text, &Variables::default(), &around).unwrap();
    let (folder, nowhere) = (tempfile::tempdir().unwrap(), HostRoot::new("/nonexistent"));
    let (_, mut record) =
        RunStore::at(folder.path()).create(&read, text, 7, &HostRoot::default()).unwrap();
    let roster = Roster::default();
    for (index, id, rdt) in [(4, Some("0123456789ab".into()), true), (5, None, false)] {
        roster.add(Member {
            index,
            name: "x".into(),
            round: 0,
            group: ControlGroup::named(&nowhere, "none"),
            group_id: None,
            network_of: None,
            id,
            data: ContainerData { rdt, ..ContainerData::default() },
            allocation: Allocation::default(),
        });
    }
    let limits = Allocated { cache: Some("L3:0=1".into()), bandwidth: Some("MB:0=10".into()) };
    roster.members().iter().for_each(|member| member.allocation.set(Some(limits.clone())));
    let mut rows = Rows::new(&record, roster, Duration::from_millis(100));
    let used = |index| ContainerRow {
        slot_start_ns: 1_000_000,
        covers_ns: 1,
        round: 0,
        index,
        container: "x".into(),
        cpu_ns: None,
        throttled_ns: None,
        memory_bytes: Some(9),
        block_read_bytes: None,
        block_written_bytes: None,
        network_received_bytes: None,
        network_sent_bytes: None,
        cache_allocation: Some("L3:0=3".into()),
        bandwidth_allocation: Some("MB:0=20".into()),
    };
    rows.know();
    rows.take(&Delivered::Rows(Batch::new(vec![used(4), used(5)])));
    rows.take(&Delivered::Rows(Batch::new(vec![CountersRow {
        slot_start_ns: 1_000_000,
        covers_ns: 1,
        round: 0,
        index: 4,
        container: "x".into(),
        counts: [Some(100), Some(25), Some(40), Some(4), None, None, Some(8), None],
    }])));
    rows.take(&Delivered::Rows(Batch::new(vec![ContainerCacheRow {
        slot_start_ns: 1_000_000,
        covers_ns: 100_000_000,
        round: 0,
        index: 4,
        container: "x".into(),
        processes: 1,
        left_out: 0,
        stale: false,
        llc_occupancy_bytes: Some(64),
        mbm_total_bytes: Some(300),
        mbm_local_bytes: None,
        moved_by_domain: Default::default(),
    }])));
    let tags = |index: u32, image: &str, id: &str, collector: &str| {
        let name = if index == 4 { "a" } else { "b" };
        format!(
            "benchmark_metrics,benchmark_id={},container_name={name},container_index={index},\
             {image}used_scheduler=default,{id}collector={collector} ",
            record.id
        )
    };
    let (image, id) = ("container_image=i,", "container_id=0123456789ab,");
    let expected = [
        tags(4, image, id, "docker") + "docker_memory_usage_bytes=9i 1000000",
        tags(4, image, id, "rdt")
            + "rdt_cache_allocation=\"L3:0=3\",rdt_mb_allocation=\"MB:0=20\" 1000000",
        tags(5, "", "", "docker") + "docker_memory_usage_bytes=9i 1000000",
        tags(4, image, id, "perf")
            + "perf_cache_references=100i,perf_cache_miss_rate=0.25,perf_branches=40i,\
               perf_branch_misses=4i,perf_branch_miss_rate=0.1,perf_llc_loads=8i 1000000",
        tags(4, image, id, "rdt")
            + "rdt_llc_occupancy=64i,rdt_total_memory_bandwidth=3000i 1000000",
    ];
    assert_eq!(rows.ready(2), expected);
    let unsampled = tags(4, image, id, "rdt")
        + "rdt_cache_allocation=\"L3:0=1\",rdt_mb_allocation=\"MB:0=10\" 3";
    assert_eq!(rows.ready(3), [unsampled], "limits are told of who is not sampled too");
    record.outcome = Some(Outcome::Completed);
    let total = rows::totals(&record);
    let meta = rows.meta(&record, "text");
    let head = |line: &str| line.split(' ').next().unwrap().to_owned();
    assert_eq!(head(&total), head(&meta), "both are one point");
    assert!(
        total.contains("total_rounds=0i") && total.contains("outcome=\"completed\""),
        "{total}"
    );
    assert!(total.ends_with(" 7") && meta.ends_with(" 7"));
}
