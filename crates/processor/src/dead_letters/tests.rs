use super::*;
use crate::queue::{Block, segment};

fn block(number: u32) -> Block {
    let payload = format!("block {number}").into_bytes().into();
    Block { kind: 1, samples: number, enqueued_ms: 7, payload, ..Block::default() }
}

fn kept(letters: &DeadLetters) -> Vec<u32> {
    letters.list().unwrap().iter().map(|letter| letter.about.samples).collect()
}

#[test]
fn letters_are_there_after_a_crash_and_go_one_by_one() {
    let data = tempfile::tempdir().unwrap();
    let place = folder(data.path(), "store");
    let letters = DeadLetters::of(data.path(), "store");
    assert!(letters.list().unwrap().is_empty(), "none before the first");
    let mut keeper = Keeper::open(&place, 1 << 20).unwrap();
    for number in 0..3 {
        keeper.keep(&block(number), 422, "too long").unwrap();
    }
    // Nothing is closed: as after a kill -9, with half a record at the end.
    let last = segment::list(&place).unwrap()[0];
    let path = segment::path(&place, last);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend_from_slice(&[9; 30]);
    std::fs::write(&path, bytes).unwrap();
    let mut keeper = Keeper::open(&place, 1 << 20).unwrap();
    keeper.keep(&block(3), 400, "bad").unwrap();

    let all = letters.list().unwrap();
    assert_eq!(kept(&letters), [0, 1, 2, 3]);
    assert_eq!((all[0].about.status, &*all[0].about.reason), (422, "too long"));
    assert_eq!((all[0].about.bytes, &*all[0].about.protocol), (7, "1.0"));
    let bodies: Vec<Letter> =
        segment::list(&place).unwrap().iter().flat_map(|s| letters.letters(*s).unwrap()).collect();
    assert_eq!(&bodies[3].block[..], b"block 3");
    letters.forget([&all[1]]).unwrap();
    assert_eq!(kept(&letters), [0, 2, 3]);
    letters.forget([&all[0], &all[2]]).unwrap();
    assert!(!path.exists(), "a segment without letters goes");
    assert_eq!(kept(&letters), [3]);
}

#[test]
fn the_oldest_go_when_there_is_no_room_and_are_counted() {
    let data = tempfile::tempdir().unwrap();
    let place = folder(data.path(), "store");
    let mut keeper = Keeper::open(&place, 4000).unwrap();
    let evicted: u64 = (0..200).map(|number| keeper.keep(&block(number), 400, "x").unwrap()).sum();
    let left = kept(&DeadLetters::of(data.path(), "store"));
    assert_eq!(evicted as usize + left.len(), 200);
    assert_eq!(left.last(), Some(&199));
    assert!(left.is_sorted() && left.len() > 5, "{left:?}");
    let files = segment::list(&place).unwrap();
    let total: u64 =
        files.iter().map(|s| segment::path(&place, *s).metadata().unwrap().len()).sum();
    assert!(total <= 4000, "{total}");
}

#[test]
fn one_more_costs_the_same_however_many_there_are() {
    let data = tempfile::tempdir().unwrap();
    let place = folder(data.path(), "store");
    let mut keeper = Keeper::open(&place, 64 << 20).unwrap();
    let opened = |keeper: &mut Keeper, count: u32| {
        for number in 0..count {
            keeper.keep(&block(number), 400, "x").unwrap();
        }
        segment::list(&place).unwrap().len()
    };
    // Files are what listing and evicting cost by; letters share them.
    assert_eq!(opened(&mut keeper, 10), 1);
    assert_eq!(opened(&mut keeper, 300), 1);
}

/// As a keeper leaves them, without waiting for the disk each time.
fn many(place: &Path, count: u32) {
    std::fs::create_dir_all(place).unwrap();
    let mut bytes = Vec::new();
    for number in 0..count {
        let about = About { samples: number, ..About::default() };
        let letter = Block { payload: pack(&about, b"block").into(), ..block(number) };
        bytes.extend_from_slice(&crate::queue::record::Header::of(&letter));
        bytes.extend_from_slice(&letter.payload);
    }
    std::fs::write(segment::path(place, 1), bytes).unwrap();
    std::fs::write(segment::path(place, 2), []).unwrap();
}

#[test]
fn a_hundred_thousand_letters_are_dropped_in_seconds() {
    let data = tempfile::tempdir().unwrap();
    let place = folder(data.path(), "store");
    many(&place, 100_000);
    let letters = DeadLetters::of(data.path(), "store");
    let all = letters.list().unwrap();
    assert_eq!(all.len(), 100_000);
    let begun = std::time::Instant::now();
    letters.forget(&all).unwrap();
    // One by one, each with a look through the segment, would be hours.
    assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(segment::list(&place).unwrap(), [2], "the emptied segment is gone");
}

#[test]
fn beside_a_hundred_thousand_letters_more_are_kept_as_fast_as_beside_none() {
    let data = tempfile::tempdir().unwrap();
    let place = folder(data.path(), "store");
    many(&place, 100_000);
    let mut keeper = Keeper::open(&place, 64 << 20).unwrap();
    let begun = std::time::Instant::now();
    for number in 0..200 {
        assert_eq!(keeper.keep(&block(number), 400, "x").unwrap(), 0, "there is room");
    }
    // A look through the others for each would be a second or so, and minutes for all.
    assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(kept(&DeadLetters::of(data.path(), "store")).len(), 100_200);
}
