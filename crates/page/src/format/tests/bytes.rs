//! The formats, byte by byte.

use super::*;

/// The bytes themselves: they are on disk, so they may never change.
#[test]
fn bytes_are_those_of_the_format() {
    let page_size = PageSize::new(4096).unwrap();
    let mut page = vec![0xaa; 4096];
    let reference = PageRef { address: PageAddress(0x0102), checksum: 0x0304 };
    let reference_bytes = [2, 1, 0, 0, 0, 0, 0, 0, 4, 3, 0, 0, 0, 0, 0, 0];
    let check = |page: &[u8], used: &[&[u8]]| {
        let used = used.concat();
        assert_eq!(page[..used.len()], used);
        assert!(page[used.len()..].iter().all(|byte| *byte == 0));
    };

    let mut leaf = LeafBuilder::new(page_size, TREE);
    assert!(leaf.try_push(b"key", LeafValue::Inline(b"one")));
    assert!(leaf.try_push(b"kind", LeafValue::Overflow(OverflowRef { length: 5_000, root: reference })));
    leaf.finish_into(&mut page);
    // Offsets, lengths of one byte and tags; prefix "k".
    check(
        &page,
        &[
            &[b'L', 1, 0b1101, 0, 7, 0, 0, 0, 2, 0, 0, 0, 65, 0, 0, 0],
            &[1, 0, 0, 0, 0, 0, 2, 0],
            &[29, 0, 36, 0],
            b"k",
            b"\x02ey\x00one",
            b"\x03ind\x01",
            &[0x88, 0x13, 0, 0, 0, 0, 0, 0],
            &reference_bytes,
        ],
    );

    leaf.reset();
    assert!(leaf.try_push(b"ka", LeafValue::Inline(b"1")) && leaf.try_push(b"kb", LeafValue::Inline(b"2")));
    leaf.finish_into(&mut page);
    // Neither offsets nor lengths: each suffix is of one byte, each entry of two.
    check(&page, &[&[b'L', 1, 0, 0, 7, 0, 0, 0, 2, 0, 0, 0, 29, 0, 0, 0], &[1, 0, 1, 0, 2, 0, 0, 0], b"ka1b2"]);

    let mut inner = InnerBuilder::new(page_size, TREE, 3);
    assert!([&b""[..], b"m", b"mz"].iter().all(|separator| inner.try_push(separator, reference)));
    inner.finish_into(&mut page);
    // Values of one length, so suffixes are the rest of their entries; prefix "m".
    check(
        &page,
        &[
            &[b'I', 1, 0b0011, 3, 7, 0, 0, 0, 2, 0, 0, 0, 78, 0, 0, 0],
            &[1, 0, 16, 0, 0, 0, 2, 0],
            &reference_bytes,
            &[45, 0, 61, 0],
            b"m",
            &reference_bytes,
            b"z",
            &reference_bytes,
        ],
    );

    write_overflow_data(&mut page, expected(page_size), b"piece");
    check(&page, &[&[b'D', 1, 0, 0, 7, 0, 0, 0, 5, 0, 0, 0, 21, 0, 0, 0], b"piece"]);
    let mut index = OverflowIndexBuilder::new(page_size, TREE, 1);
    assert!(index.try_push(reference));
    index.finish_into(&mut page);
    check(&page, &[&[b'X', 1, 0, 1, 7, 0, 0, 0, 1, 0, 0, 0, 32, 0, 0, 0], &reference_bytes]);
}
