//! Ready views: each a file of SQL whose comment says what a row is.

mod slot;

use crate::Error;
use datafusion::execution::context::SessionContext;
pub(crate) use slot::length;

/// A view: its name, the tables it stands on, and its text.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// Its name.
    pub name: &'static str,
    /// Data sets without which it cannot be.
    pub needs: &'static [&'static str],
    /// The query, its comment first; `{slot_ns}` is the length of a slot.
    pub text: &'static str,
}

/// Every view. A new one is a file and a line here.
pub const VIEWS: &[View] = &[
    View { name: "per_second", needs: &["tasks"], text: include_str!("per_second.sql") },
    View { name: "per_container", needs: &["tasks"], text: include_str!("per_container.sql") },
    View { name: "task_cache", needs: &["tasks", "cache"], text: include_str!("task_cache.sql") },
    View { name: "neighbours", needs: &["tasks"], text: include_str!("neighbours.sql") },
    View { name: "waited_for", needs: &["tasks"], text: include_str!("waited_for.sql") },
    View { name: "losses", needs: &["slots"], text: include_str!("losses.sql") },
];

impl View {
    /// What a row of it is.
    pub fn about(&self) -> String {
        let comment = self.text.lines().map_while(|line| line.strip_prefix("-- "));
        comment.collect::<Vec<_>>().join(" ")
    }

    /// The statement that creates it over recordings whose slots are so long, in nanoseconds or as an expression.
    pub fn statement(&self, slot_ns: &str) -> String {
        format!("CREATE VIEW {} AS {}", self.name, self.text.replace("{slot_ns}", slot_ns))
    }
}

/// Creates the views whose data sets are there, and says which.
pub(crate) async fn create(
    context: &SessionContext,
    tables: &[String],
    slot_ns: &str,
) -> Result<Vec<String>, Error> {
    let mut created = Vec::new();
    for view in VIEWS {
        let has = |name: &&str| tables.iter().any(|table| table == name);
        if view.needs.iter().all(has) {
            context.sql(&view.statement(slot_ns)).await?.collect().await?;
            created.push(view.name.to_owned());
        }
    }
    Ok(created)
}
