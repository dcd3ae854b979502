//! What the three databases spell differently.

/// The database's kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
    Mysql,
}

impl Dialect {
    /// The tail of an insert that leaves a row alone that is there already. MySQL's INSERT IGNORE
    /// would hide other errors too, so a column is set to itself there.
    pub(crate) fn or_leave(self, column: &str) -> String {
        match self {
            Dialect::Sqlite | Dialect::Postgres => " ON CONFLICT DO NOTHING".to_owned(),
            Dialect::Mysql => format!(" ON DUPLICATE KEY UPDATE {column} = {column}"),
        }
    }

    /// The tail of an insert into `workload` that fills what a row that is there already does not
    /// tell. Whom it belongs to may be known better than before.
    pub(crate) fn or_fill_workload(self) -> &'static str {
        match self {
            Dialect::Sqlite | Dialect::Postgres => {
                " ON CONFLICT (uid) DO UPDATE SET \
                 name = COALESCE(workload.name, excluded.name), \
                 namespace = COALESCE(workload.namespace, excluded.namespace), \
                 kind = COALESCE(workload.kind, excluded.kind), \
                 group_uid = COALESCE(excluded.group_uid, workload.group_uid) \
                 WHERE (workload.name IS NULL AND excluded.name IS NOT NULL) \
                 OR (workload.namespace IS NULL AND excluded.namespace IS NOT NULL) \
                 OR (workload.kind IS NULL AND excluded.kind IS NOT NULL) \
                 OR (excluded.group_uid IS NOT NULL AND COALESCE(workload.group_uid, '') <> excluded.group_uid)"
            }
            Dialect::Mysql => {
                " ON DUPLICATE KEY UPDATE name = COALESCE(name, VALUES(name)), \
                 namespace = COALESCE(namespace, VALUES(namespace)), \
                 kind = COALESCE(kind, VALUES(kind)), \
                 group_uid = COALESCE(VALUES(group_uid), group_uid)"
            }
        }
    }

    /// The tail of an insert into `training_reporter` that overwrites how far it is; what part it plays stays known where
    /// a line does not tell.
    pub(crate) fn or_update_reporter(self) -> &'static str {
        match self {
            Dialect::Sqlite | Dialect::Postgres => {
                " ON CONFLICT (workload_uid, run_serial, pod_uid, data_source) DO UPDATE SET \
                 last_iteration = excluded.last_iteration, last_at = excluded.last_at, \
                 start_at = excluded.start_at, \
                 replica_role = COALESCE(excluded.replica_role, training_reporter.replica_role)"
            }
            Dialect::Mysql => {
                " ON DUPLICATE KEY UPDATE last_iteration = VALUES(last_iteration), \
                 last_at = VALUES(last_at), start_at = VALUES(start_at), \
                 replica_role = COALESCE(VALUES(replica_role), replica_role)"
            }
        }
    }

    /// The tail of an insert that overwrites `columns` of a row that is there already.
    pub(crate) fn or_update(self, key: &str, columns: &[&str]) -> String {
        let new = |column: &&str| match self {
            Dialect::Sqlite | Dialect::Postgres => format!("{column} = excluded.{column}"),
            Dialect::Mysql => format!("{column} = VALUES({column})"),
        };
        let set = columns.iter().map(new).collect::<Vec<_>>().join(", ");
        match self {
            Dialect::Sqlite | Dialect::Postgres => {
                format!(" ON CONFLICT ({key}) DO UPDATE SET {set}")
            }
            Dialect::Mysql => format!(" ON DUPLICATE KEY UPDATE {set}"),
        }
    }

    /// A placeholder for JSON text.
    pub(crate) fn json(self) -> (&'static str, &'static str) {
        match self {
            Dialect::Postgres => ("CAST(", " AS JSONB)"),
            Dialect::Sqlite | Dialect::Mysql => ("", ""),
        }
    }

    /// A JSON column read as text.
    pub(crate) fn json_text(self, column: &str) -> String {
        match self {
            Dialect::Postgres => format!("CAST({column} AS TEXT)"),
            Dialect::Sqlite | Dialect::Mysql => column.to_owned(),
        }
    }

    /// Division of whole numbers.
    pub(crate) fn divide(self) -> &'static str {
        match self {
            Dialect::Mysql => "DIV",
            Dialect::Sqlite | Dialect::Postgres => "/",
        }
    }

    /// The tail of a select that keeps its rows for this transaction. SQLite's writers already
    /// come one after the other.
    pub(crate) fn for_update(self) -> &'static str {
        match self {
            Dialect::Sqlite => "",
            Dialect::Postgres | Dialect::Mysql => " FOR UPDATE",
        }
    }

    /// How a transaction that writes begins. SQLite takes the writer's place at once: taking it
    /// later fails when another writer came between.
    pub(crate) fn begin(self) -> &'static str {
        match self {
            Dialect::Sqlite => "BEGIN IMMEDIATE",
            Dialect::Postgres | Dialect::Mysql => "BEGIN",
        }
    }
}
