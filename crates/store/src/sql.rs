//! A statement with its values, for all three databases.

use sqlx::any::{AnyArguments, AnyRow};
use sqlx::{AnyConnection, Arguments, AssertSqlSafe};

use crate::dialect::Dialect;

/// Rows to a statement: below every database's limit of values (SQLite: 32,766) for any table here.
pub(crate) const ROWS: usize = 500;

/// A statement being written. Text is only ever ours; whatever came from outside is a value.
pub(crate) struct Sql {
    dialect: Dialect,
    text: String,
    values: AnyArguments,
    count: usize,
}

impl Sql {
    pub(crate) fn new(dialect: Dialect, text: &str) -> Sql {
        Sql { dialect, text: text.to_owned(), values: AnyArguments::default(), count: 0 }
    }

    pub(crate) fn push(&mut self, text: &str) -> &mut Sql {
        self.text.push_str(text);
        self
    }

    pub(crate) fn int(&mut self, value: impl Into<Option<i64>>) -> &mut Sql {
        self.placeholder();
        let _ = self.values.add(value.into());
        self
    }

    pub(crate) fn text<'t>(&mut self, value: impl Into<Option<&'t str>>) -> &mut Sql {
        self.placeholder();
        let _ = self.values.add(value.into().map(str::to_owned));
        self
    }

    pub(crate) fn json(&mut self, value: &str) -> &mut Sql {
        let (before, after) = self.dialect.json();
        self.push(before).text(value).push(after)
    }

    /// `(?, ?, ...)`
    pub(crate) fn texts<'t>(&mut self, values: impl IntoIterator<Item = &'t str>) -> &mut Sql {
        self.push("(");
        for (index, value) in values.into_iter().enumerate() {
            self.push(if index > 0 { ", " } else { "" }).text(value);
        }
        self.push(")")
    }

    /// `(?, ?, ...)`
    pub(crate) fn ints(&mut self, values: &[i64]) -> &mut Sql {
        self.push("(");
        for (index, value) in values.iter().enumerate() {
            self.push(if index > 0 { ", " } else { "" }).int(*value);
        }
        self.push(")")
    }

    /// `(...), (...)`, a row for each item.
    pub(crate) fn rows<T>(&mut self, items: &[T], mut row: impl FnMut(&mut Sql, &T)) -> &mut Sql {
        for (index, item) in items.iter().enumerate() {
            self.push(if index > 0 { ", (" } else { "(" });
            row(self, item);
            self.push(")");
        }
        self
    }

    fn placeholder(&mut self) {
        self.count += 1;
        match self.dialect {
            Dialect::Postgres => self.text.push_str(&format!("${}", self.count)),
            Dialect::Sqlite | Dialect::Mysql => self.text.push('?'),
        }
    }

    pub(crate) async fn execute(self, connection: &mut AnyConnection) -> Result<u64, sqlx::Error> {
        let result =
            sqlx::query_with(AssertSqlSafe(self.text), self.values).execute(connection).await?;
        Ok(result.rows_affected())
    }

    pub(crate) async fn fetch(
        self,
        connection: &mut AnyConnection,
    ) -> Result<Vec<AnyRow>, sqlx::Error> {
        sqlx::query_with(AssertSqlSafe(self.text), self.values).fetch_all(connection).await
    }
}
