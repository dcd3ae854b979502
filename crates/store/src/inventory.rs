//! The inputs of the processor's caches: pods, their containers and devices, workloads, and which
//! pod belongs to which workload.

use sqlx::any::AnyRow;
use sqlx::{AnyConnection, Row};

use crate::dialect::Dialect;
use crate::error::Error;
use crate::record::check_text;
use crate::sql::{ROWS, Sql};
use crate::store::Store;

/// A pod. Times are nanoseconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// Its UID.
    pub uid: String,
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The node it runs on, once it has one.
    pub node: Option<String>,
    /// The part it plays in its workload: `master`, `worker`; where it is known.
    pub replica_role: Option<String>,
    /// When it was made.
    pub created_at: Option<i64>,
    /// When its node took it on, which gives it its devices.
    pub started_at: Option<i64>,
    /// When it was deleted.
    pub deleted_at: Option<i64>,
}

/// A container of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Container {
    /// Its id, without the engine's prefix.
    pub id: String,
    /// Its pod.
    pub pod_uid: String,
    /// Its name in the pod.
    pub name: String,
}

/// A device and the pod that has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// The node it is in.
    pub node: String,
    /// The label that names such devices in metrics: `gpu_id`, `device`, `asic`.
    pub label: String,
    /// The label's value for this one.
    pub name: String,
    /// The pod that has it.
    pub pod_uid: String,
}

/// A workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// Its UID.
    pub uid: String,
    /// Its name, where it is known.
    pub name: Option<String>,
    /// Its namespace.
    pub namespace: Option<String>,
    /// Its kind: `Job`, `PyTorchJob`, ...
    pub kind: Option<String>,
    /// When it was made.
    pub created_at: Option<i64>,
    /// When the first of its pods was taken on by a node.
    pub started_at: Option<i64>,
    /// When it ended.
    pub ended_at: Option<i64>,
}

/// A pod's place in a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodWorkload {
    /// The pod.
    pub pod_uid: String,
    /// The workload.
    pub workload_uid: String,
}

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Pods.
    pub pods: Vec<Pod>,
    /// Containers.
    pub containers: Vec<Container>,
    /// Devices.
    pub devices: Vec<Device>,
    /// Workloads.
    pub workloads: Vec<Workload>,
    /// Which pod belongs to which workload.
    pub references: Vec<PodWorkload>,
}

impl Store {
    /// Adds to the inventory, or overwrites what is there under the same key, in one transaction.
    ///
    /// # Errors
    /// Where an entry cannot be stored, which is named, or the database cannot be written; then
    /// nothing was.
    pub async fn save_inventory(&self, inventory: &Inventory) -> Result<(), Error> {
        check(inventory).map_err(|reason| Error::Row {
            location: self.location.shown.clone(),
            table: "inventory",
            reason,
        })?;
        let inventory = &deduplicated(inventory);
        let mut tries = self.tries("save the inventory");
        loop {
            match self.save_once(inventory).await {
                Ok(()) => return Ok(()),
                Err(failure) => tries.after(failure).await?,
            }
        }
    }

    async fn save_once(&self, inventory: &Inventory) -> Result<(), sqlx::Error> {
        let mut transaction = self.begin().await?;
        save(&mut transaction, self.location.dialect, inventory).await?;
        transaction.commit().await
    }

    /// The inventory without pods deleted before `deleted_after` and what hangs on them: five
    /// queries, however much there is.
    ///
    /// # Errors
    /// Where the database cannot be read.
    pub async fn load_inventory(&self, deleted_after: i64) -> Result<Inventory, Error> {
        let failed = self.failed("load the inventory");
        let mut connection = self.connection().await?;
        let alive = |text: &str| {
            let mut select = Sql::new(self.location.dialect, text);
            select.push(" WHERE p.deleted_at IS NULL OR p.deleted_at >= ").int(deleted_after);
            select
        };
        let pods = alive(
            "SELECT p.uid, p.name, p.namespace, p.node, p.created_at, p.deleted_at, p.started_at, p.replica_role FROM pod p",
        );
        let containers = alive(
            "SELECT c.id, c.pod_uid, c.name FROM container c JOIN pod p ON p.uid = c.pod_uid",
        );
        let devices = alive(
            "SELECT d.node, d.label, d.name, d.pod_uid FROM device d JOIN pod p ON p.uid = d.pod_uid",
        );
        let references = alive(
            "SELECT r.pod_uid, r.workload_uid FROM pod_workload r JOIN pod p ON p.uid = r.pod_uid",
        );
        let mut workloads = Sql::new(
            self.location.dialect,
            "SELECT w.uid, w.name, w.namespace, w.kind, w.created_at, w.ended_at, w.started_at FROM workload w WHERE w.uid IN \
             (SELECT r.workload_uid FROM pod_workload r JOIN pod p ON p.uid = r.pod_uid \
             WHERE p.deleted_at IS NULL OR p.deleted_at >= ",
        );
        workloads.int(deleted_after).push(")");
        Ok(Inventory {
            pods: read(&mut connection, pods, read_pod).await.map_err(&failed)?,
            containers: read(&mut connection, containers, read_container).await.map_err(&failed)?,
            devices: read(&mut connection, devices, read_device).await.map_err(&failed)?,
            workloads: read(&mut connection, workloads, read_workload).await.map_err(&failed)?,
            references: read(&mut connection, references, read_reference).await.map_err(&failed)?,
        })
    }
}

async fn read<T>(
    connection: &mut AnyConnection,
    select: Sql,
    row: fn(&AnyRow) -> Result<T, sqlx::Error>,
) -> Result<Vec<T>, sqlx::Error> {
    select.fetch(connection).await?.iter().map(row).collect()
}

fn read_pod(row: &AnyRow) -> Result<Pod, sqlx::Error> {
    Ok(Pod {
        uid: row.try_get(0)?,
        name: row.try_get(1)?,
        namespace: row.try_get(2)?,
        node: row.try_get(3)?,
        created_at: row.try_get(4)?,
        deleted_at: row.try_get(5)?,
        started_at: row.try_get(6)?,
        replica_role: row.try_get(7)?,
    })
}

fn read_container(row: &AnyRow) -> Result<Container, sqlx::Error> {
    Ok(Container { id: row.try_get(0)?, pod_uid: row.try_get(1)?, name: row.try_get(2)? })
}

fn read_device(row: &AnyRow) -> Result<Device, sqlx::Error> {
    Ok(Device {
        node: row.try_get(0)?,
        label: row.try_get(1)?,
        name: row.try_get(2)?,
        pod_uid: row.try_get(3)?,
    })
}

fn read_workload(row: &AnyRow) -> Result<Workload, sqlx::Error> {
    Ok(Workload {
        uid: row.try_get(0)?,
        name: row.try_get(1)?,
        namespace: row.try_get(2)?,
        kind: row.try_get(3)?,
        created_at: row.try_get(4)?,
        ended_at: row.try_get(5)?,
        started_at: row.try_get(6)?,
    })
}

fn read_reference(row: &AnyRow) -> Result<PodWorkload, sqlx::Error> {
    Ok(PodWorkload { pod_uid: row.try_get(0)?, workload_uid: row.try_get(1)? })
}

async fn save(
    connection: &mut AnyConnection,
    dialect: Dialect,
    inventory: &Inventory,
) -> Result<(), sqlx::Error> {
    for chunk in inventory.workloads.chunks(ROWS) {
        let mut insert = Sql::new(
            dialect,
            "INSERT INTO workload (uid, name, namespace, kind, created_at, started_at, ended_at) VALUES ",
        );
        insert.rows(chunk, |sql, workload| {
            sql.text(workload.uid.as_str()).push(", ").text(workload.name.as_deref());
            sql.push(", ")
                .text(workload.namespace.as_deref())
                .push(", ")
                .text(workload.kind.as_deref());
            sql.push(", ").int(workload.created_at).push(", ").int(workload.started_at);
            sql.push(", ").int(workload.ended_at);
        });
        let columns = ["name", "namespace", "kind", "created_at", "started_at", "ended_at"];
        insert.push(&dialect.or_update("uid", &columns));
        insert.execute(connection).await?;
    }
    for chunk in inventory.pods.chunks(ROWS) {
        let mut insert = Sql::new(
            dialect,
            "INSERT INTO pod (uid, name, namespace, node, replica_role, created_at, started_at, deleted_at) VALUES ",
        );
        insert.rows(chunk, |sql, pod| {
            sql.text(pod.uid.as_str())
                .push(", ")
                .text(pod.name.as_str())
                .push(", ")
                .text(pod.namespace.as_str());
            sql.push(", ").text(pod.node.as_deref()).push(", ").text(pod.replica_role.as_deref());
            sql.push(", ").int(pod.created_at).push(", ").int(pod.started_at);
            sql.push(", ").int(pod.deleted_at);
        });
        let columns =
            ["name", "namespace", "node", "replica_role", "created_at", "started_at", "deleted_at"];
        insert.push(&dialect.or_update("uid", &columns));
        insert.execute(connection).await?;
    }
    for chunk in inventory.containers.chunks(ROWS) {
        let mut insert = Sql::new(dialect, "INSERT INTO container (id, pod_uid, name) VALUES ");
        insert.rows(chunk, |sql, container| {
            sql.text(container.id.as_str()).push(", ").text(container.pod_uid.as_str());
            sql.push(", ").text(container.name.as_str());
        });
        insert.push(&dialect.or_update("id", &["pod_uid", "name"]));
        insert.execute(connection).await?;
    }
    for chunk in inventory.devices.chunks(ROWS) {
        let mut insert =
            Sql::new(dialect, "INSERT INTO device (node, label, name, pod_uid) VALUES ");
        insert.rows(chunk, |sql, device| {
            sql.text(device.node.as_str()).push(", ").text(device.label.as_str());
            sql.push(", ").text(device.name.as_str()).push(", ").text(device.pod_uid.as_str());
        });
        insert.push(&dialect.or_update("node, label, name", &["pod_uid"]));
        insert.execute(connection).await?;
    }
    for chunk in inventory.references.chunks(ROWS) {
        let mut insert =
            Sql::new(dialect, "INSERT INTO pod_workload (pod_uid, workload_uid) VALUES ");
        insert.rows(chunk, |sql, reference| {
            sql.text(reference.pod_uid.as_str()).push(", ").text(reference.workload_uid.as_str());
        });
        insert.push(&dialect.or_leave("pod_uid"));
        insert.execute(connection).await?;
    }
    Ok(())
}

/// One entry for each key, the last one given, in the order of the keys: a statement cannot write
/// a row twice, and two writers must take rows in one order.
fn deduplicated(inventory: &Inventory) -> Inventory {
    fn last<T: Clone, K: Ord>(items: &[T], key: impl Fn(&T) -> K) -> Vec<T> {
        let keyed = items.iter().map(|item| (key(item), item));
        keyed.collect::<std::collections::BTreeMap<_, _>>().into_values().cloned().collect()
    }
    Inventory {
        pods: last(&inventory.pods, |pod| pod.uid.clone()),
        containers: last(&inventory.containers, |container| container.id.clone()),
        devices: last(&inventory.devices, |d| (d.node.clone(), d.label.clone(), d.name.clone())),
        workloads: last(&inventory.workloads, |workload| workload.uid.clone()),
        references: last(&inventory.references, |r| (r.pod_uid.clone(), r.workload_uid.clone())),
    }
}

fn check(inventory: &Inventory) -> Result<(), String> {
    for pod in &inventory.pods {
        check_text("pod UID", &pod.uid, 255)?;
        check_text("pod name", &pod.name, 255)?;
        check_text("pod namespace", &pod.namespace, 255)?;
        check_text("node", pod.node.as_deref().unwrap_or("-"), 255)?;
        check_text("replica role", pod.replica_role.as_deref().unwrap_or("-"), 255)?;
    }
    for container in &inventory.containers {
        check_text("container id", &container.id, 255)?;
        check_text("pod UID", &container.pod_uid, 255)?;
        check_text("container name", &container.name, 255)?;
    }
    for device in &inventory.devices {
        check_text("node", &device.node, 255)?;
        check_text("device label", &device.label, 64)?;
        check_text("device name", &device.name, 255)?;
        check_text("pod UID", &device.pod_uid, 255)?;
    }
    for workload in &inventory.workloads {
        check_text("workload UID", &workload.uid, 255)?;
        check_text("workload name", workload.name.as_deref().unwrap_or("-"), 255)?;
        check_text("workload namespace", workload.namespace.as_deref().unwrap_or("-"), 255)?;
        check_text("workload kind", workload.kind.as_deref().unwrap_or("-"), 64)?;
    }
    for reference in &inventory.references {
        check_text("pod UID", &reference.pod_uid, 255)?;
        check_text("workload UID", &reference.workload_uid, 255)?;
    }
    Ok(())
}
