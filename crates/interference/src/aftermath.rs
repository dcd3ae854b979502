use crate::columns::Group;
use crate::series::{Point, Series};

/// The points with exposures that rise at once and fade with this time constant once the neighbour has gone: it drives
/// lines out of a cache faster than the victim brings them back.
pub(crate) fn lingering(series: &Series, fades_ns: f64, groups: &mut [Group]) -> Series {
    let mut series = series.clone();
    let fading = fading(&series.points, fades_ns);
    for group in groups.iter_mut() {
        let mut sum = 0.0;
        for member in &group.members {
            let Some(column) = series.exposure_mut(member) else { continue };
            let mut left = 0.0_f64;
            for (cores, fades) in column.iter_mut().zip(&fading) {
                left = cores.max(left * fades);
                *cores = left;
                sum += left;
            }
        }
        group.mean = sum / series.points.len().max(1) as f64;
    }
    series
}

/// What is left at each point of what was there at the one before; nothing across a break.
fn fading(points: &[Point], fades_ns: f64) -> Vec<f64> {
    let mut before_ns = 0;
    let left = |point: &Point| {
        let passed_ns = point.start_ns.abs_diff(before_ns) as f64;
        before_ns = point.start_ns;
        if point.restart { 0.0 } else { (-passed_ns / fades_ns).exp() }
    };
    points.iter().map(left).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Subject, Way};

    #[test]
    fn what_a_neighbour_did_fades_and_does_not_cross_a_break() {
        let who = (Subject(1), Way::Cache);
        let point = |at: u64, cores: f64, restart: bool| {
            let start_ns = at * 40_000_000;
            (Point { start_ns, restart, ..Point::default() }, vec![(who, cores)])
        };
        let series = Series::of([
            point(0, 0.0, true),
            point(1, 1.0, false),
            point(2, 0.0, false),
            point(3, 0.0, true),
        ]);
        let mut groups = [Group { members: vec![who], mean: 0.25 }];
        let seen = groups[0].clone().exposure(&lingering(&series, 40e6, &mut groups));
        assert_eq!((seen[0], seen[1], seen[3]), (0.0, 1.0, 0.0));
        assert!((seen[2] - (-1.0_f64).exp()).abs() < 1e-9, "{seen:?}");
        assert!((groups[0].mean - (1.0 + seen[2]) / 4.0).abs() < 1e-9);
    }
}
