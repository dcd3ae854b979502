use super::*;
use crate::{Evidence, NamedVerdict, RunReport};

fn verdict(victim: &str, aggressor: &str) -> NamedVerdict {
    let evidence = Evidence {
        bins: 1_500,
        exposure: 0.4,
        effect_per_core: 0.5,
        t: 12.0,
        misses_t: None,
        probe_t: None,
    };
    NamedVerdict {
        victim: victim.to_owned(),
        aggressor: aggressor.to_owned(),
        aggressors: vec![aggressor.to_owned()],
        from_ns: 1_794_837_730_000_000_000,
        to_ns: 1_794_837_760_000_000_000,
        slowdown: 0.31,
        low: 0.27,
        high: 0.35,
        lost_seconds: 4.2,
        resource: "memory bandwidth",
        signal: "time per wake-up",
        evidence,
        node: "n".to_owned(),
        run: "r".to_owned(),
        confidence: 0.9993,
    }
}

#[test]
fn the_sentence_says_who_lost_how_much_to_whom_when_and_through_what() {
    let run = RunReport { rows: 1, verdicts: vec![verdict("A", "B")], ..RunReport::default() };
    let page = page(&Report { runs: vec![run], ..Report::default() });
    assert!(page.contains(
        "Between 14:02:10 and 14:02:40 <b class=\"v\">A</b> lost 31 % (27 to 35 %) of its time to <b class=\"a\">B</b> \
         through memory bandwidth."
    ));
    assert!(page.contains("99.9 % sure") && page.contains("<title>A lost 31 % to B</title>"));
}

#[test]
fn a_name_that_is_markup_stays_a_name_everywhere() {
    let evil = "</script><script>document.title='owned'</script><img src=x onerror=\"a()\">";
    let mut run = RunReport { rows: 1, node: evil.to_owned(), ..RunReport::default() };
    run.verdicts = vec![verdict(evil, evil)];
    run.caveats = vec![evil.to_owned()];
    let report = Report { runs: vec![run], unread: vec![evil.to_owned()], ..Report::default() };
    let page = page(&report);
    assert!(!page.contains("<script>document") && !page.contains("<img"));
    assert_eq!(page.matches("<script").count(), 2);
}

#[test]
fn a_name_with_a_plus_in_it_is_one_and_has_its_row() {
    let mut run = RunReport { rows: 1, ..RunReport::default() };
    run.verdicts = vec![verdict("A", "b + c"), verdict("A", "d + e")];
    run.verdicts[1].aggressors = vec!["d".to_owned(), "e".to_owned()];
    let page = page(&Report { runs: vec![run], ..Report::default() });
    let has_row = |name: &str| page.contains(&format!("<th scope=\"row\">{name}</th>"));
    assert_eq!([has_row("A"), has_row("b + c"), has_row("d + e")], [true, true, false]);
}

#[test]
fn nothing_is_fetched_from_anywhere() {
    let page = page(&Report::default());
    assert!(page.contains("default-src 'none'"));
    for word in ["http:", "https:", "src=\"", "@import", "url("] {
        assert!(!page.contains(word), "{word}");
    }
}
