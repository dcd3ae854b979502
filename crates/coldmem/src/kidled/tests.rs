use super::*;
use proptest::prelude::*;
use std::time::Duration;

/// The head and the first three rows of a real kernel's file, as they stand there.
const REAL: &str = "\
# version: 1.0
# page_scans: 24
# slab_scans: 0
# scan_period_in_seconds: 120
# use_hierarchy: 1
# buckets: 1,2,5,15,30,60,120,240
#
#   _-----=> clean/dirty
#  / _----=> swap/file
# | / _---=> evict/unevict
# || / _--=> inactive/active
# ||| / _-=> slab
# |||| /
# |||||             [1,2)          [2,5)         [5,15)        [15,30)        [30,60)       [60,120)      [120,240)     [240,+inf)
  csei            2613248        4657152       18182144      293683200              0              0              0              0
  dsei            2568192        5140480       15306752       48648192              0              0              0              0
  cfei            2633728        4640768       66531328      340172800              0              0              0              0
";

/// A file with a head of a real kernel's kind, and numbers that tell every cell from every other.
fn file(header: &str, rows: &[&str], columns: usize) -> String {
    let mut text = header.to_owned();
    for (at, row) in rows.iter().enumerate() {
        let values: Vec<String> =
            (0..columns).map(|column| format!("{:>14}", (at * 8 + column) * 4096)).collect();
        text += &format!("  {row}    {}\n", values.join(" "));
    }
    text
}

const SPLIT: &str = "# version: 1.0\n# page_scans: 24\n# slab_scans: 3\n\
    # scan_period_in_seconds: 120\n# use_hierarchy: 1\n# buckets: 1,2,5,15,30,60,120,240\n#\n\
    #   _-----=> clean/dirty\n# |||||             [1,2)          [2,5)\n";

fn parsed(text: &str) -> Result<IdleInfo, IdleInfoError> {
    let mut info = IdleInfo::default();
    info.parse(text).map(|()| info)
}

fn refused(text: &str) -> IdleInfoError {
    parsed(text).expect_err(text)
}

#[test]
fn what_a_real_kernel_writes_is_read_as_it_stands() {
    let rest = IdleRow::NAMES[3..].iter().map(|row| format!("  {row} {}\n", "0 ".repeat(8)));
    let text = REAL.to_owned() + &rest.collect::<String>();
    let info = parsed(&text).unwrap();
    assert_eq!((info.version.as_str(), info.page_scans, info.slab_scans), ("1.0", 24, Some(0)));
    assert_eq!((info.scan_period_in_seconds, info.use_hierarchy), (120, Some(1)));
    assert_eq!(info.buckets, [1, 2, 5, 15, 30, 60, 120, 240]);
    let row = |name| info.row(IdleRow::named(name).unwrap()).unwrap();
    assert_eq!(row("csei"), [2_613_248, 4_657_152, 18_182_144, 293_683_200, 0, 0, 0, 0]);
    assert_eq!(row("dsei"), [2_568_192, 5_140_480, 15_306_752, 48_648_192, 0, 0, 0, 0]);
    assert_eq!(row("cfei"), [2_633_728, 4_640_768, 66_531_328, 340_172_800, 0, 0, 0, 0]);
    // Idle for 300 s and more: what is from three scans of 120 s on, so from the bucket of five.
    assert_eq!(info.ages(&ColdBoundary::default()).cold_bytes(), Some(66_531_328 + 340_172_800));
    assert_eq!(info.cold_from_ms(&ColdBoundary::default()), Some(600_000));
    // Cut off behind these rows, as it stands, it is refused where the next one should be.
    let error = refused(REAL);
    assert_eq!((error.line, error.problem), (18, Problem::NoRow("dfei")));
}

#[test]
fn every_variant_of_the_header_is_read() {
    let whole = parsed(&file(SPLIT, &IdleRow::NAMES, 8)).unwrap();
    assert_eq!((whole.page_scans, whole.slab_scans, whole.use_hierarchy), (24, Some(3), Some(1)));
    assert_eq!(whole.row(IdleRow::SLAB).unwrap()[7], (16 * 8 + 7) * 4096);
    assert_eq!(whole.idle_total_bytes(), Some((0..17 * 8).sum::<u64>() * 4096));

    let flat = SPLIT.replace("# use_hierarchy: 1\n", "");
    assert_eq!(parsed(&file(&flat, &IdleRow::NAMES, 8)).unwrap().use_hierarchy, None);

    let old = flat.replace("# page_scans: 24\n# slab_scans: 3\n", "# scans: 1380\n");
    let old = parsed(&file(&old, &IdleRow::NAMES[..16], 8)).unwrap();
    assert_eq!((old.page_scans, old.slab_scans), (1380, None));
    assert_eq!(old.row(IdleRow::SLAB), None);

    let none = flat.replace("1,2,5,15,30,60,120,240", "no valid bucket available");
    let none = parsed(&none).unwrap();
    assert!(none.buckets.is_empty());
    assert_eq!(none.idle_total_bytes(), None);

    let two = SPLIT.replace("1,2,5,15,30,60,120,240", "7,9");
    assert_eq!(parsed(&file(&two, &IdleRow::NAMES, 2)).unwrap().buckets, [7, 9]);
}

#[test]
fn what_is_mangled_is_refused_with_line_and_column() {
    let whole = file(SPLIT, &IdleRow::NAMES, 8);
    let at = |error: IdleInfoError| (error.line, error.column, error.problem);

    let cut = &whole[..whole.find("  dsei").unwrap() + 30];
    let problem = Problem::TooFewValues { row: "dsei", values: 1, buckets: 8 };
    assert_eq!(at(refused(cut)), (11, 25, problem));

    let cut = &whole[..whole.find("  slab").unwrap()];
    assert_eq!(at(refused(cut)), (26, 1, Problem::NoRow("slab")));
    assert_eq!(at(refused("")), (1, 1, Problem::NoHeader("version")));

    // Within the very last number: what is left of it is a number too.
    let cut = &whole[..whole.len() - 3];
    let width = cut.lines().last().unwrap().len();
    assert_eq!(at(refused(cut)), (26, width + 1, Problem::NoEnd));
    assert_eq!(at(refused(&whole[..whole.len() - 1])), (26, width + 3, Problem::NoEnd));

    let wide = file(SPLIT, &IdleRow::NAMES, 9);
    let problem = Problem::TooManyValues { row: "csei", buckets: 8 };
    assert_eq!(at(refused(&wide)), (10, 140, problem));

    let huge = whole.replacen("         4096 ", "18446744073709551616 ", 1);
    let (line, _, problem) = at(refused(&huge));
    assert_eq!((line, problem), (10, Problem::TooLarge("18446744073709551616".to_owned())));

    let negative = whole.replacen(" 4096 ", " -409 ", 1);
    let problem = Problem::NotANumber("-409".to_owned());
    assert_eq!(at(refused(&negative)), (10, 36, problem));

    let nowhere = "# version: 1.0\n  csei 1 2\n";
    assert_eq!(at(refused(nowhere)), (2, 3, Problem::RowBeforeBuckets("csei")));
    let unknown = whole.replace("  dfua ", "  dfux ");
    assert_eq!(refused(&unknown).problem, Problem::UnknownRow("dfux".to_owned()));
    let twice = whole.replace("  dfua ", "  cfua ");
    assert_eq!(refused(&twice).problem, Problem::RowTwice("cfua"));
    let falling = whole.replace("1,2,5,15", "1,5,2,15");
    assert_eq!(at(refused(&falling)), (6, 16, Problem::BucketOrder(2)));
    let message = refused(&falling).to_string();
    assert_eq!(message, "line 6, column 16: bucket 2 is not larger than the one before it");
}

#[test]
fn a_file_that_is_refused_leaves_nothing_of_the_one_before() {
    let mut info = parsed(&file(SPLIT, &IdleRow::NAMES, 8)).unwrap();
    assert!(info.parse("# version: 2\n").is_err());
    assert_eq!(info, IdleInfo::default());
}

#[test]
fn the_largest_numbers_add_up_to_the_largest_number() {
    let rows = IdleRow::NAMES.map(|row| format!("{row} {} 1\n", u64::MAX)).concat();
    let text = SPLIT.replace("1,2,5,15,30,60,120,240", "1,18446744073709551615") + &rows;
    let info = parsed(&text).unwrap();
    assert_eq!(info.idle_total_bytes(), Some(u64::MAX));
    assert_eq!(info.ages(&ColdBoundary::default()).cells[0].bytes, u64::MAX);
}

#[test]
fn cold_is_inactive_page_cache_of_five_minutes_unless_told_otherwise() {
    let text = "# version: 1.0\n# scans: 9\n# scan_period_in_seconds: 100\n# buckets: 1,3\n";
    let text = IdleRow::NAMES[..16].iter().fold(text.to_owned(), |t, row| t + row + " 10 1\n");
    let info = parsed(&text).unwrap();
    let ages = info.ages(&ColdBoundary::default());
    assert_eq!(ages.cold_bytes(), Some(4));
    assert_eq!((ages.cold_of(Kind::File), ages.cold_of(Kind::Anon)), (Some(4), Some(0)));
    let file = ages.cells.iter().find(|cell| cell.kind == Kind::File).unwrap();
    assert_eq!((file.from_ms, file.to_ms, file.bytes), (100_000, Some(300_000), 80));
    assert!(ages.cells.iter().all(|cell| cell.kind != Kind::Slab));

    let all = ColdBoundary::new(Duration::from_secs(100), ["anon", "file"]).unwrap();
    assert_eq!(info.ages(&all).cold_bytes(), Some(16 * 11));
    let one = ColdBoundary::new(Duration::from_secs(301), ["cfea"]).unwrap();
    assert_eq!(info.ages(&one).cold_bytes(), Some(0));
    assert!(ColdBoundary::new(Duration::ZERO, ["cfxx"]).is_err());
}

prop_compose! {
    fn any_info()(
        buckets in prop::collection::btree_set(any::<u64>(), 0..12),
        slab_scans in any::<Option<u64>>(),
        slab_row in any::<bool>(),
        (page_scans, period, use_hierarchy) in any::<(u64, u64, Option<u64>)>(),
        version in "[0-9]{1,3}(\\.[0-9]{1,3})?",
        seed in prop::collection::vec(any::<u64>(), 17 * 12),
    ) -> IdleInfo {
        let buckets: Vec<u64> = buckets.into_iter().collect();
        let columns = buckets.len();
        let mut info = IdleInfo {
            version, page_scans, slab_scans, scan_period_in_seconds: period, use_hierarchy, buckets,
            ..IdleInfo::default()
        };
        let slab = slab_row || slab_scans.is_some_and(|scans| scans > 0);
        for row in IdleRow::all().filter(|row| columns > 0 && (slab || *row != IdleRow::SLAB)) {
            info.set_row(row, &seed[row.index() * 12..row.index() * 12 + columns]);
        }
        info
    }
}

proptest! {
    #[test]
    fn what_is_rendered_is_read_back(info in any_info()) {
        prop_assert_eq!(parsed(&info.to_string()), Ok(info));
    }

    #[test]
    fn a_file_cut_or_changed_anywhere_never_panics(
        info in any_info(), at in any::<prop::sample::Index>(), put in "\\PC{0,3}",
    ) {
        let text = info.to_string();
        let at = at.index(text.len());
        let _ = parsed(&text[..at]);
        let _ = parsed(&format!("{}{put}{}", &text[..at], &text[at..]));
    }

    #[test]
    fn a_file_cut_within_its_last_line_is_refused(info in any_info(), at in any::<prop::sample::Index>()) {
        let text = info.to_string();
        let before_last = text.trim_end().rfind('\n').map_or(0, |at| at + 1);
        // Before the first letter of the line there is nothing to see of it.
        let first = before_last + text[before_last..].len() - text[before_last..].trim_start().len();
        let at = first + 1 + at.index(text.len() - first - 1);
        prop_assert!(parsed(&text[..at]).is_err(), "{:?}", &text[before_last..at]);
    }

    #[test]
    fn any_text_is_read_without_panic(text in "[#a-z0-9:, \\n]*") {
        let _ = parsed(&text);
    }
}
