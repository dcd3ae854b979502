//! What is in a bucket, asked for at many places at once.
//!
//! A store names a thousand objects in an answer, and the next answer can only be asked for with the last name of this one:
//! a year of a thousand nodes would be listed for an hour. So where there is more than one answer, the folders of data sets and
//! of nodes are found first, and then listed beside each other.

use futures_util::stream::{self, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, Result};

/// Names that a store gives in one answer.
const ONE_ANSWER: usize = 1_000;
/// Folders below the prefix that are listed by themselves: of a data set, and of a node in it.
const LEVELS: usize = 2;
/// Questions that are open at the same time.
const AT_ONCE: usize = 32;

/// All names below a prefix with their sizes, by name.
pub(crate) async fn all(store: &dyn ObjectStore, prefix: &Path) -> Result<Vec<(String, u64)>> {
    let few: Vec<_> = store.list(Some(prefix)).map_ok(sized).take(ONE_ANSWER).try_collect().await?;
    let mut found = if few.len() < ONE_ANSWER { few } else { by_folders(store, prefix).await? };
    found.sort();
    Ok(found)
}

async fn by_folders(store: &dyn ObjectStore, prefix: &Path) -> Result<Vec<(String, u64)>> {
    let (mut found, mut folders) = (Vec::new(), vec![prefix.clone()]);
    for _ in 0..LEVELS {
        let asked = folders.iter().map(|folder| store.list_with_delimiter(Some(folder)));
        let answers: Vec<_> = stream::iter(asked).buffer_unordered(AT_ONCE).try_collect().await?;
        folders.clear();
        for answer in answers {
            found.extend(answer.objects.into_iter().map(sized));
            folders.extend(answer.common_prefixes);
        }
    }
    let asked = folders.iter().map(|folder| {
        let names = store.list(Some(folder)).map_ok(sized);
        names.try_collect::<Vec<_>>()
    });
    let mut answers = stream::iter(asked).buffer_unordered(AT_ONCE);
    while let Some(below) = answers.try_next().await? {
        found.extend(below);
    }
    Ok(found)
}

fn sized(object: ObjectMeta) -> (String, u64) {
    (object.location.to_string(), object.size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::ObjectStoreExt;
    use object_store::memory::InMemory;

    async fn plain(store: &InMemory, prefix: &Path) -> Vec<(String, u64)> {
        let mut all: Vec<_> = store.list(Some(prefix)).map_ok(sized).try_collect().await.unwrap();
        all.sort();
        all
    }

    #[tokio::test]
    async fn many_objects_are_found_wherever_they_lie_and_no_others() {
        let store = InMemory::new();
        let put = async |name: String| {
            let size = name.len();
            store.put(&Path::from(name), vec![0; size].into()).await.unwrap();
        };
        for name in
            ["rec/note", "rec/tasks/note", "rec/tasks/node=a%20b/x", "recent/tasks/node=a/x"]
        {
            put(name.to_owned()).await;
        }
        for (dataset, node) in [("tasks", "a"), ("tasks", "b"), ("slots", "a")] {
            for number in 0..600 {
                put(format!("rec/{dataset}/node={node}/run=r/date=2026-01-01/{number}.parquet"))
                    .await;
            }
        }
        for prefix in ["rec", "rec/tasks", "rec/tasks/node=a", "rec/slots/node=a/run=r", "gone", ""]
        {
            let prefix = Path::from(prefix);
            let found = all(&store, &prefix).await.unwrap();
            assert_eq!(found, plain(&store, &prefix).await, "{prefix}");
        }
        assert_eq!(all(&store, &Path::from("rec")).await.unwrap().len(), 1_803);
    }
}
