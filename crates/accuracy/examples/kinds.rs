//! scratch
use crosstalk_accuracy::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let times: u64 = a[1].parse().unwrap();
    let seed: u64 = a[2].parse().unwrap();
    let only: Option<&str> = a.get(3).map(|s| s.as_str());
    let mut tables = vec![];
    for (title, counters) in [("With counters", true), ("Without counters", false)] {
        let quiet = simulated::quiet(60.0, counters);
        let earlier = quiet.victims();
        let mut kinds = vec![];
        for kind in Kind::ALL {
            if only.is_some_and(|o| !format!("{kind:?}").contains(o)) {
                continue;
            }
            let mut sum = Score::default();
            std::thread::scope(|scope| {
                let hs: Vec<_> = (0..2)
                    .map(|h| {
                        let earlier = &earlier;
                        scope.spawn(move || {
                            let mut sum = Score::default();
                            for at in (0..times).filter(|t| t % 2 == h) {
                                sum += simulated::judge(
                                    kind,
                                    seed + at * 16 + kind as u64,
                                    60.0,
                                    counters,
                                    earlier,
                                );
                            }
                            sum
                        })
                    })
                    .collect();
                for h in hs {
                    sum += h.join().unwrap();
                }
            });
            for w in &sum.wrong {
                println!("   wrong {kind:?}: {w}");
            }
            kinds.push((kind, sum));
        }
        tables.push(page::Simulated { title, kinds });
    }
    println!(
        "{}",
        page::simulated(&tables, 60.0, seed).lines().skip(4).collect::<Vec<_>>().join("\n")
    );
    println!("{}", page::targets(&tables, &[]));
}
