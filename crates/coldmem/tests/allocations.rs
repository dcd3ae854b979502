//! A round over many cgroups with one `IdleInfo` allocates nothing.

mod counting;

use counting::{allocations, text};
use crosstalk_coldmem::IdleInfo;

#[test]
fn no_line_costs_an_allocation() {
    let mut info = IdleInfo::default();
    let first = allocations(&mut info, &text(8));
    // The version, the edges (which grow twice) and the cells; there are seventeen rows.
    assert!((1..=6).contains(&first), "{first}");
    assert_eq!(allocations(&mut info, &text(8)), 0);
    assert_eq!(allocations(&mut info, &text(3)), 0);
}
