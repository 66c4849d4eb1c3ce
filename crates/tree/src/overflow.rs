//! Values too large for a leaf: written as a small tree of pages, read with many
//! pages in flight, and listed when they are freed.

use saki_base::{PageAddress, PageRef, PageSize, TreeId};
use saki_page::{
    FormatError, OverflowDataPage, OverflowIndexBuilder, OverflowIndexPage, OverflowLayout, OverflowRef,
    PageExpectation, write_overflow_data,
};
use saki_volume::PageWriter;

use crate::error::TreeError;
use crate::fetch::Fetcher;
use crate::sink::PageSink;

/// Longest value that is read into memory, in bytes: a rotten length must not ask for all of it.
const VALUE_BYTES_MAX: u64 = 1 << 40;

/// Writes a value's pages, data first.
pub(crate) fn write(
    sink: &mut PageSink,
    writer: &mut PageWriter,
    page_size: PageSize,
    tree: TreeId,
    value: &[u8],
) -> Result<OverflowRef, TreeError> {
    let layout = OverflowLayout::for_length(value.len() as u64, page_size);
    let expected = PageExpectation { page_size, tree };
    assert!(!value.is_empty(), "an empty value needs no overflow pages");
    let mut pages = Vec::with_capacity(layout.data_pages as usize);
    for piece in value.chunks(OverflowLayout::data_bytes(page_size)) {
        pages.push(sink.overflow(writer, |page| write_overflow_data(page, expected, piece))?);
    }
    for level in 1..=layout.root_level {
        let mut above = Vec::new();
        assert_eq!(pages.len() as u64, layout.level_pages(level - 1), "level {} of a value", level - 1);
        let mut index = OverflowIndexBuilder::new(page_size, tree, level);
        for children in pages.chunks(OverflowLayout::fan_out(page_size)) {
            index.reset();
            children.iter().for_each(|child| assert!(index.try_push(*child), "a chunk is one page's fan-out"));
            above.push(sink.overflow(writer, |page| index.finish_into(page))?);
        }
        pages = above;
    }
    assert_eq!(pages.len(), 1, "a value has one topmost page");
    Ok(OverflowRef { length: value.len() as u64, root: pages[0] })
}

/// One page of a value: its level, and its number among its level's pages.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    pub level: u8,
    pub index: u64,
}

/// The topmost page of a value.
pub(crate) fn top(overflow: OverflowRef, page_size: PageSize) -> Part {
    Part { level: OverflowLayout::for_length(overflow.length, page_size).root_level, index: 0 }
}

/// Opens an index page and lists its children; says what is wrong if it is not the page `part` of the value.
pub(crate) fn children(
    bytes: &[u8],
    expected: PageExpectation,
    length: u64,
    part: Part,
    children: &mut Vec<(PageRef, Part)>,
) -> Result<(), PartFault> {
    let view = OverflowIndexPage::open(bytes, expected)?;
    let layout = OverflowLayout::for_length(length, expected.page_size);
    let count = layout.children(part.level, part.index);
    if view.level() != part.level || view.count() != count {
        return Err(PartFault::Shape("an overflow index page is not of the value's shape"));
    }
    let first = part.index * OverflowLayout::fan_out(expected.page_size) as u64;
    children.extend(
        (0..count).map(|child| (view.child(child), Part { level: part.level - 1, index: first + child as u64 })),
    );
    Ok(())
}

/// The piece of the value that a data page holds.
pub(crate) fn piece(bytes: &[u8], expected: PageExpectation, length: u64, part: Part) -> Result<&[u8], PartFault> {
    let view = OverflowDataPage::open(bytes, expected)?;
    let layout = OverflowLayout::for_length(length, expected.page_size);
    if view.piece().len() != layout.piece_bytes(part.index) {
        return Err(PartFault::Shape("an overflow page holds another number of bytes than the value's length says"));
    }
    Ok(view.piece())
}

/// Puts a piece in its place in a value that grows as pieces prove that its length is real.
pub(crate) fn place(piece: &[u8], part: Part, page_size: PageSize, value: &mut Vec<u8>) {
    let start = part.index as usize * OverflowLayout::data_bytes(page_size);
    if value.len() < start + piece.len() {
        value.resize(start + piece.len(), 0);
    }
    value[start..start + piece.len()].copy_from_slice(piece);
}

/// What is wrong with a page of a value.
pub(crate) enum PartFault {
    Format(FormatError),
    Shape(&'static str),
}

impl From<FormatError> for PartFault {
    fn from(error: FormatError) -> Self {
        Self::Format(error)
    }
}

impl std::fmt::Display for PartFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Format(error) => error.fmt(f),
            Self::Shape(what) => f.write_str(what),
        }
    }
}

/// Replaces `value` by a value in overflow pages, which are read in whatever order they arrive.
pub(crate) fn read(
    fetcher: &mut Fetcher,
    tree: TreeId,
    overflow: OverflowRef,
    value: &mut Vec<u8>,
) -> Result<(), TreeError> {
    let expected = fetcher.expectation(tree);
    let mut fault = None;
    if overflow.length > VALUE_BYTES_MAX {
        fault = Some((overflow.root, PartFault::Shape("an overflow value of impossible length")));
    } else {
        value.clear();
        let mut work = vec![(overflow.root, top(overflow, expected.page_size))];
        fetcher.walk(&mut work, |work, page, part, bytes| {
            let bytes = bytes.map_err(|error| TreeError::Page { tree, error })?;
            let looked = if part.level > 0 {
                children(bytes, expected, overflow.length, part, work)
            } else {
                piece(bytes, expected, overflow.length, part).map(|piece| {
                    place(piece, part, expected.page_size, value);
                })
            };
            if let Err(found) = looked {
                fault.get_or_insert((page, found));
            }
            Ok::<(), TreeError>(())
        })?;
    }
    match fault {
        None => Ok(()),
        Some((page, fault)) => {
            Err(TreeError::Malformed { tree, page, device: fetcher.describe(page), what: fault.to_string() })
        }
    }
}

/// Appends the addresses of all pages of a value to `pages`, reading only its index pages.
pub(crate) fn list(
    fetcher: &mut Fetcher,
    tree: TreeId,
    overflow: OverflowRef,
    pages: &mut Vec<PageAddress>,
) -> Result<(), TreeError> {
    let expected = fetcher.expectation(tree);
    pages.push(overflow.root.address);
    let top = top(overflow, expected.page_size);
    if top.level == 0 {
        return Ok(());
    }
    let mut fault = None;
    let mut work = vec![(overflow.root, top)];
    let mut below = Vec::new();
    fetcher.walk(&mut work, |work, page, part, bytes| {
        let bytes = bytes.map_err(|error| TreeError::Page { tree, error })?;
        below.clear();
        if let Err(found) = children(bytes, expected, overflow.length, part, &mut below) {
            fault.get_or_insert((page, found));
        }
        pages.extend(below.iter().map(|(page, _)| page.address));
        work.extend(below.iter().filter(|(_, part)| part.level > 0));
        Ok::<(), TreeError>(())
    })?;
    match fault {
        None => Ok(()),
        Some((page, fault)) => {
            Err(TreeError::Malformed { tree, page, device: fetcher.describe(page), what: fault.to_string() })
        }
    }
}
