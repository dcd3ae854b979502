//! PCM's three outputs become the same metrics, and only what was measured.

use crosstalk_host::WithFix;
use crosstalk_pcm::{CsvParser, NodeMetrics, PcmError, Row, parse_sensor_server};
use proptest::prelude::*;
use std::time::Duration;

const PCM: &str = include_str!("fixtures/pcm.csv");
const PCM_MEMORY: &str = include_str!("fixtures/pcm-memory.csv");
const PER_SECOND: &[u8] = include_bytes!("fixtures/persecond.json");

fn rows(parser: &mut CsvParser, text: &str) -> Vec<Row> {
    text.lines().filter_map(|line| parser.line(line).expect("a good line")).collect()
}

fn parser() -> CsvParser {
    CsvParser::new(Duration::from_secs(1))
}

fn near(got: Option<f64>, expected: f64) {
    let got = got.expect("measured");
    assert!((got - expected).abs() <= expected.abs() * 1e-9, "{got} is not {expected}");
}

#[test]
fn a_row_of_pcm_becomes_node_metrics_in_base_units() {
    let metrics = rows(&mut parser(), PCM)[0].metrics;
    near(metrics.ipc, 1.24);
    near(metrics.freq_mhz, 2610.0);
    near(metrics.mem_bw_read, 11.32e9);
    near(metrics.mem_bw_write, 4.08e9);
    near(metrics.mem_bw_total, 15.40e9);
    near(metrics.cache_miss, 0.39);
    near(metrics.llc_mpki, 1.8);
    near(metrics.llc_occupancy, (18432.0 + 20480.0) * 1024.0);
    near(metrics.cpu_util, 0.231);
}

#[test]
fn what_pcm_could_not_measure_is_absent_and_a_part_is_not_taken_for_the_whole() {
    let rows = rows(&mut parser(), PCM);
    assert_eq!(rows[1].metrics.llc_occupancy, None, "one of two sockets is N/A");
    let poor = rows[2].metrics;
    assert_eq!((poor.ipc, poor.freq_mhz, poor.cache_miss, poor.llc_mpki), (None, None, None, None));
    near(poor.cpu_util, 0.26 / 1.10);
}

#[test]
fn bytes_are_divided_by_the_time_between_rows_unless_the_clock_makes_no_sense() {
    let rows = rows(&mut parser(), PCM);
    assert_eq!(rows[2].covers, Duration::from_secs(2));
    near(rows[2].metrics.mem_bw_read, 10.0e9);
    // The fourth row is dated an hour earlier: the end of summer time.
    assert_eq!(rows[3].covers, Duration::from_secs(1));
    near(rows[3].metrics.mem_bw_read, 10.0e9);
}

#[test]
fn a_row_of_pcm_memory_becomes_bandwidth_and_nothing_else() {
    let rows = rows(&mut parser(), PCM_MEMORY);
    let expected = NodeMetrics {
        mem_bw_read: Some(6095.18 * 1e6),
        mem_bw_write: Some(540.78 * 1e6),
        mem_bw_total: Some(6635.96 * 1e6),
        ..NodeMetrics::default()
    };
    assert_eq!(rows[0].metrics, expected);
    near(rows[1].metrics.mem_bw_read, 6100.0e6);
    near(rows[1].metrics.mem_bw_total, 6630.0e6);
}

#[test]
fn the_sensor_server_answers_the_same_metrics() {
    let metrics = parse_sensor_server(PER_SECOND).unwrap();
    near(metrics.ipc, 1.25);
    near(metrics.freq_mhz, 2610.0);
    near(metrics.mem_bw_read, 11_323e6 / 1.000_25);
    near(metrics.mem_bw_total, (11_323e6 + 4_080.5e6) / 1.000_25);
    near(metrics.cache_miss, 0.4);
    near(metrics.llc_mpki, 1.8);
    near(metrics.llc_occupancy, 38_912.0 * 1024.0);
    near(metrics.cpu_util, 0.231);
}

#[test]
fn an_answer_that_is_not_the_sensor_servers_says_how_to_ask() {
    let error = |body: &[u8]| parse_sensor_server(body).unwrap_err().with_fix();
    assert!(error(b"# HELP Instructions_Retired_Any").contains("Accept: application/json"));
    assert!(error(b"{}").contains("Interval us"));
    assert!(error(br#"{"Interval us": 1000000}"#).contains("/persecond"));
    assert!(error(br#"[{"Interval us": 1}]"#).contains("Interval us"));
}

#[test]
fn a_new_header_mid_stream_replaces_the_old_one() {
    let mut parser = parser();
    assert_eq!(rows(&mut parser, PCM).len(), 4);
    let memory = rows(&mut parser, PCM_MEMORY);
    assert_eq!(memory[0].metrics.ipc, None);
    near(memory[0].metrics.mem_bw_write, 540.78e6);
    assert_eq!(rows(&mut parser, PCM)[0].metrics.ipc, Some(1.24));
}

#[test]
fn columns_that_change_without_a_header_are_an_error_and_not_other_metrics() {
    let mut parser = parser();
    rows(&mut parser, PCM_MEMORY);
    let shorter = "2026-11-02,09:30:02.104,1.0,2.0,3.0";
    assert_eq!(parser.line(shorter), Err(PcmError::FieldCount { expected: 21, got: 5 }));
    let good = PCM_MEMORY.lines().nth(2).unwrap();
    assert!(parser.line(good).unwrap().is_some(), "the parser goes on");
}

#[test]
fn banners_before_the_header_are_passed_over_and_garbage_after_it_is_told() {
    let mut parser = parser();
    assert_eq!(parser.line(" Intel(r) Performance Counter Monitor"), Ok(None));
    assert_eq!(parser.line("Number of physical cores: 20"), Ok(None));
    rows(&mut parser, PCM_MEMORY);
    let error = parser.line("Segmentation fault").unwrap_err();
    assert_eq!(error.to_string(), "pcm: not a row: \"Segmentation fault\"");
}

#[test]
fn a_row_without_a_header_or_a_header_without_its_groups_is_refused() {
    let row = PCM_MEMORY.lines().nth(2).unwrap();
    assert_eq!(parser().line(row), Err(PcmError::NoHeader));
    let names = PCM_MEMORY.lines().nth(1).unwrap();
    assert_eq!(parser().line(names), Err(PcmError::HeaderMismatch { groups: 1, names: 21 }));
    let mut strange = parser();
    strange.line(",,Foo").unwrap();
    assert_eq!(strange.line("Date,Time,Bar"), Err(PcmError::NothingKnown { columns: 3 }));
}

#[test]
fn only_a_row_with_all_its_fields_is_whole() {
    let mut parser = parser();
    rows(&mut parser, PCM);
    let row = PCM.lines().nth(2).unwrap();
    assert!(parser.is_whole_row(row));
    assert!(!parser.is_whole_row(row.trim_end_matches(',')), "the last number may go on");
    assert!(!parser.is_whole_row(&row[..row.len() - 6]));
}

proptest! {
    #[test]
    fn no_line_makes_the_parser_panic_or_yield_numbers_that_are_none(
        lines in prop::collection::vec("[-0-9a-zA-Z,.:% /()]{0,80}|2026-11-02,09:30:00.1(,[-naif0-9.]{0,5}){18,22}", 0..30)
    ) {
        let mut parser = parser();
        rows(&mut parser, PCM_MEMORY);
        for line in lines {
            if let Ok(Some(row)) = parser.line(&line) {
                let m = row.metrics;
                for value in [m.mem_bw_read, m.mem_bw_write, m.mem_bw_total].into_iter().flatten() {
                    prop_assert!(value.is_finite() && value >= 0.0);
                }
                prop_assert!(row.covers > Duration::ZERO);
            }
        }
    }

    #[test]
    fn no_body_makes_the_sensor_parser_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse_sensor_server(&body);
    }
}
