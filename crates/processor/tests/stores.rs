//! Stores that refuse, fail, hang and come back: what was acknowledged arrives, in order, and one does not stop another.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::HashMap;
use std::time::Duration;

use crosstalk_processor::Config;
use crosstalk_processor::config::{Endpoint, EndpointProtocol, Period, Secret, WhenFull};
use crosstalk_processor::dead_letters::{DeadLetters, Replayed, replay};
use support::sink::Sink;
use support::write::{body, write};
use support::{Service, eventually};

const UP: &[(&str, &str)] = &[("__name__", "up"), ("namespace", "ml"), ("pod", "train-0")];

fn start(endpoints: Vec<Endpoint>, change: impl FnOnce(&mut Config)) -> Service {
    Service::start(|config| {
        let pods = config.data_dir.with_file_name("pods.yaml");
        std::fs::write(&pods, support::PODS).unwrap();
        config.cache.static_file = Some(pods);
        config.endpoints = endpoints;
        change(config);
    })
}

fn endpoint(sink: &Sink) -> Endpoint {
    Endpoint { max_backoff: Period::millis(200), ..Endpoint::new("store", sink.url()) }
}

#[test]
fn a_store_that_does_not_let_us_in_or_is_not_there_is_asked_again_and_nothing_is_lost() {
    let sink = Sink::start();
    let service = start(vec![endpoint(&sink)], |_| {});
    let answers = ["401 No", "403 No", "404 Where", "408 Late", "307 There", "409 Hm", "503 Away"];
    for (number, answer) in answers.iter().enumerate() {
        sink.answer_always(Some(answer));
        let asked = sink.requests().len();
        let number = number as i64;
        assert_eq!(write(service.address, &[(UP, &[(1.0, number)])]).status, 204);
        eventually("another try", || (sink.requests().len() > asked + 1).then_some(()));
    }
    sink.answer_always(None);
    let series = sink.wait_for(answers.len());
    let order: Vec<i64> = series.iter().map(|arrived| arrived.samples[0].1).collect();
    assert_eq!(order, (0..answers.len() as i64).collect::<Vec<_>>());
    assert_eq!(service.metric("crosstalk_processor_dead_letters_total"), 0.0);
}

#[test]
fn a_block_the_store_calls_bad_is_kept_with_the_reason_and_can_be_sent_again() {
    let sink = Sink::start();
    let service = start(vec![endpoint(&sink)], |_| {});
    for (number, answer) in ["400 Bad", "413 Large", "422 Odd"].iter().enumerate() {
        sink.answer_next(answer);
        assert_eq!(write(service.address, &[(UP, &[(1.0, number as i64)])]).status, 204);
        let asked = number + 1;
        eventually("the refusal", || (sink.requests().len() >= asked).then_some(()));
    }
    assert_eq!(write(service.address, &[(UP, &[(2.0, 3)])]).status, 204);
    assert_eq!(sink.wait_for(1)[0].samples[0].1, 3, "the next goes on");
    let data = service.folder.path().join("data");
    let letters = DeadLetters::of(&data, "store");
    let kept = letters.list().unwrap();
    let statuses: Vec<u16> = kept.iter().map(|letter| letter.about.status).collect();
    assert_eq!(statuses, [400, 413, 422]);
    assert_eq!((kept[0].about.samples, &*kept[0].about.protocol), (1, "1.0"));

    // While the processor runs: one is taken now, one refused again, one dropped.
    sink.answer_next("204 No Content");
    sink.answer_next("422 Still odd");
    let mut told = Vec::new();
    let wanted = |letter: &crosstalk_processor::dead_letters::Letter| letter.id != kept[1].id;
    replay(&data, &endpoint(&sink), wanted, |letter, replayed| {
        told.push((letter.id.clone(), replayed.clone()));
    })
    .unwrap();
    assert_eq!(told[0], (kept[0].id.clone(), Replayed::Delivered));
    assert!(matches!(told[1].1, Replayed::Refused(422, _)), "{told:?}");
    assert_eq!(sink.wait_for(2)[1].samples[0].1, 0);
    letters.forget([&kept[1]]).unwrap();
    let left: Vec<String> = letters.list().unwrap().into_iter().map(|letter| letter.id).collect();
    assert_eq!(left, [kept[2].id.clone()]);
}

#[test]
fn a_dead_store_stops_no_other_and_what_it_misses_is_counted() {
    let (good, dead) = (Sink::start(), Sink::start());
    dead.answer_always(Some("503 Away"));
    let small = |name: &str, sink: &Sink| Endpoint {
        name: name.to_owned(),
        max_queue_bytes: 20_000,
        ..endpoint(sink)
    };
    let service = start(vec![small("good", &good), small("dead", &dead)], |config| {
        config.limits.max_body_bytes = 10_000;
    });
    let long = "x".repeat(500);
    for number in 0..200 {
        let labels = [("__name__", "up"), ("namespace", "ml"), ("pod", "train-0"), ("x", &*long)];
        let answer = write(service.address, &[(&labels, &[(1.0, number)])]);
        assert_eq!(answer.status, 204, "{}", answer.text());
        eventually("the good store keeps up", || {
            (good.series().len() as i64 > number).then_some(())
        });
    }
    let metric = |name: &str, endpoint: &str| {
        service.metric(&format!("crosstalk_processor_queue_{name}{{endpoint=\"{endpoint}\"}}"))
    };
    assert!(metric("dropped_samples_total", "dead") >= 50.0);
    assert_eq!(metric("dropped_samples_total", "good"), 0.0);
    dead.answer_always(None);
    let dropped = metric("dropped_samples_total", "dead") as usize;
    let left = dead.wait_for(200 - dropped);
    let order: Vec<i64> = left.iter().map(|arrived| arrived.samples[0].1).collect();
    assert!(order.is_sorted() && order.last() == Some(&199), "the newest are there: {order:?}");
}

#[test]
fn several_stores_may_be_told_to_block() {
    let (good, dead) = (Sink::start(), Sink::start());
    dead.answer_always(Some("503 Away"));
    let blocking = |name: &str, sink: &Sink| Endpoint {
        name: name.to_owned(),
        max_queue_bytes: 20_000,
        when_full: Some(WhenFull::Block),
        ..endpoint(sink)
    };
    let service = start(vec![blocking("good", &good), blocking("dead", &dead)], |config| {
        config.limits.max_body_bytes = 10_000;
    });
    let mut number = 0;
    let refused = eventually("a full queue", || {
        number += 1;
        Some(write(service.address, &[(UP, &[(1.0, number)])])).filter(|a| a.status != 204)
    });
    assert_eq!(refused.status, 429, "{}", refused.text());
    assert!(refused.text().contains("dead"), "{}", refused.text());
}

#[test]
fn many_requests_are_in_flight_and_every_series_stays_in_order() {
    in_order(EndpointProtocol::V1);
}

#[test]
fn many_requests_of_2_0_are_in_flight_and_every_series_stays_in_order() {
    in_order(EndpointProtocol::V2);
}

fn in_order(protocol: EndpointProtocol) {
    let sink = Sink::start();
    let wide = Endpoint { in_flight: 8, protocol, ..endpoint(&sink) };
    let service = start(vec![wide], |_| {});
    sink.slow_down(Duration::from_millis(20));
    let numbers: Vec<String> = (0..40).map(|number| number.to_string()).collect();
    for round in 0..20i64 {
        // Some of the answers fail, so that lanes overtake each other.
        if round % 3 == 0 {
            sink.answer_next("503 Busy");
        }
        let labels: Vec<[(&str, &str); 4]> = numbers
            .iter()
            .map(|n| [("__name__", "up"), ("n", n), ("namespace", "ml"), ("pod", "train-0")])
            .collect();
        let samples = [(1.0, round)];
        let series: Vec<_> = labels.iter().map(|labels| (&labels[..], &samples[..])).collect();
        assert_eq!(write(service.address, &series).status, 204);
    }
    let mut of_series: HashMap<String, Vec<i64>> = HashMap::new();
    for arrived in sink.wait_for(800) {
        let times = arrived.samples.iter().map(|(_, time)| *time);
        of_series.entry(arrived.labels).or_default().extend(times);
    }
    assert_eq!(of_series.len(), 40);
    for (labels, times) in of_series {
        assert_eq!(times, (0..20).collect::<Vec<i64>>(), "{labels}");
    }
    let most = sink.most_in_work();
    assert!((3..=8).contains(&most), "{most} at once");
}

#[test]
fn small_blocks_that_wait_travel_together_in_both_protocols() {
    for protocol in [EndpointProtocol::V1, EndpointProtocol::V2] {
        let sink = Sink::start();
        sink.answer_always(Some("503 Away"));
        let narrow = Endpoint { in_flight: 1, protocol, ..endpoint(&sink) };
        let service = start(vec![narrow], |_| {});
        for number in 0..40 {
            assert_eq!(write(service.address, &[(UP, &[(number as f64, number)])]).status, 204);
        }
        let refused = sink.requests().len();
        sink.answer_always(None);
        let series = sink.wait_for(40);
        let order: Vec<i64> = series.iter().map(|arrived| arrived.samples[0].1).collect();
        assert_eq!(order, (0..40).collect::<Vec<_>>());
        let requests = sink.requests().len() - refused;
        assert!(requests < 10, "{protocol:?}: {requests} for 40 blocks");
    }
}

#[test]
fn headers_of_an_endpoint_go_along_and_are_no_secret_told() {
    let sink = Sink::start();
    let mut endpoint = endpoint(&sink);
    endpoint.headers.insert("X-Scope-OrgID".into(), Secret::new("team-a"));
    assert!(!format!("{endpoint:?}").contains("team-a"));
    let service = start(vec![endpoint], |_| {});
    assert_eq!(write(service.address, &[(UP, &[(1.0, 5)])]).status, 204);
    sink.wait_for(1);
    let request = &sink.requests()[0];
    assert!(request.contains("x-scope-orgid: team-a"), "{request}");
    let text =
        "[[endpoint]]\nname = \"a\"\nurl = \"http://x/\"\nheaders = { Content-Type = \"x\" }\n";
    let error = Config::from_text("p.toml", text).unwrap_err().to_string();
    assert!(error.contains("Content-Type") && error.starts_with("p.toml:4"), "{error}");
}

#[test]
fn a_body_whose_blocks_fit_no_queue_is_refused_with_the_limit() {
    let sink = Sink::start();
    let tiny = Endpoint { max_queue_bytes: 3000, ..endpoint(&sink) };
    let service = start(vec![tiny], |config| config.limits.max_body_bytes = 3000);
    // Compresses well as it comes, and much less with a workload's labels in every series.
    let numbers: Vec<String> = (0..400).map(|number| number.to_string()).collect();
    let labels: Vec<[(&str, &str); 4]> = numbers
        .iter()
        .map(|n| [("__name__", "up"), ("n", n), ("namespace", "ml"), ("pod", "train-0")])
        .collect();
    let series: Vec<_> = labels.iter().map(|labels| (&labels[..], &[(1.0, 1)][..])).collect();
    let mut count = series.len();
    while body(&series[..count]).len() > 2990 {
        count -= 1;
    }
    let answer = write(service.address, &series[..count]);
    assert_eq!(answer.status, 413, "{}", answer.text());
    assert!(answer.text().contains("max_queue_bytes (3000)"), "{}", answer.text());
}

#[test]
fn a_processor_that_is_told_to_stop_waits_for_its_answers_and_sends_nothing_twice() {
    let sink = Sink::start();
    let service = start(vec![endpoint(&sink)], |_| {});
    sink.slow_down(Duration::from_secs(1));
    assert_eq!(write(service.address, &[(UP, &[(1.0, 1)])]).status, 204);
    eventually("a request in flight", || (sink.most_in_work() > 0).then_some(()));
    // It comes while the store is at work, and is not begun any more.
    assert_eq!(write(service.address, &[(UP, &[(2.0, 2)])]).status, 204);
    let pods = service.folder.path().join("pods.yaml");
    let service = service.restart(|config| {
        config.cache.static_file = Some(pods);
        config.endpoints = vec![endpoint(&sink)];
    });
    sink.slow_down(Duration::ZERO);
    service.wait_until_ready();
    assert_eq!(write(service.address, &[(UP, &[(3.0, 3)])]).status, 204);
    let delivered = "crosstalk_processor_queue_bytes{endpoint=\"store\"}";
    eventually("delivery", || (service.metric(delivered) == 0.0).then_some(()));
    let times: Vec<i64> =
        sink.series().iter().flat_map(|series| series.samples.iter().map(|s| s.1)).collect();
    assert_eq!(times, [1, 2, 3], "each once");
}

#[test]
fn what_went_ahead_of_a_lane_that_is_refused_is_not_sent_again_after_a_restart() {
    let sink = Sink::start();
    let wide = || Endpoint { in_flight: 8, ..endpoint(&sink) };
    let service = start(vec![wide()], |_| {});
    // The lane of one series waits; the others go on.
    sink.be_away_for(Some("n=0 "));
    let numbers: Vec<String> = (0..40).map(|number| number.to_string()).collect();
    let labels: Vec<[(&str, &str); 4]> = numbers
        .iter()
        .map(|n| [("__name__", "up"), ("n", n), ("namespace", "ml"), ("pod", "train-0")])
        .collect();
    let send = |service: &Service, round: i64| {
        let samples = [(1.0, round)];
        let series: Vec<_> = labels.iter().map(|labels| (&labels[..], &samples[..])).collect();
        assert_eq!(write(service.address, &series).status, 204);
    };
    (0..20).for_each(|round| send(&service, round));
    let of_others = |times: &[i64]| times == (0..20).collect::<Vec<i64>>();
    let arrived = || {
        let mut of_series: HashMap<String, Vec<i64>> = HashMap::new();
        for arrived in sink.series() {
            let times = arrived.samples.iter().map(|(_, time)| *time);
            of_series.entry(arrived.labels).or_default().extend(times);
        }
        of_series
    };
    eventually("most series are there", || {
        (arrived().values().filter(|times| of_others(times)).count() >= 20).then_some(())
    });
    let pods = service.folder.path().join("pods.yaml");
    let service = service.restart(|config| {
        config.cache.static_file = Some(pods);
        config.endpoints = vec![wide()];
    });
    service.wait_until_ready();
    sink.be_away_for(None);
    send(&service, 20);
    eventually("delivery", || {
        let waits = service.metric("crosstalk_processor_queue_bytes{endpoint=\"store\"}");
        (waits == 0.0 && sink.series().len() >= 40 * 21).then_some(())
    });
    let arrived = arrived();
    assert_eq!(arrived.len(), 40);
    for (labels, times) in arrived {
        assert_eq!(times, (0..=20).collect::<Vec<i64>>(), "{labels}");
    }
}
