//! Gathering writes and scattering reads of sockets, with descriptors beside the bytes.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use super::lent::Piece;

/// Pieces of one call.
pub const PIECES_MOST: usize = 128;
/// Most descriptors beside one message.
const DESCRIPTORS_MOST: usize = 4;

/// Room for as many descriptors as one message may have, aligned as the kernel wants it.
#[repr(align(8))]
struct Control {
    bytes: [u8; 64],
}

/// Sends as much as the socket takes of the first [`PIECES_MOST`] pieces, with `descriptor` beside the first byte.
pub fn send(socket: BorrowedFd<'_>, pieces: &[Piece<'_>], descriptor: Option<BorrowedFd<'_>>) -> io::Result<usize> {
    let mut vectors = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; PIECES_MOST];
    for (vector, piece) in vectors.iter_mut().zip(pieces) {
        *vector = match piece {
            Piece::Owned(bytes) => libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() },
            Piece::Lent(lent, from) => libc::iovec {
                iov_base: lent.pointer().wrapping_add(*from).cast_mut().cast(),
                iov_len: lent.len() - from,
            },
        };
    }
    let mut control = Control { bytes: [0; 64] };
    // SAFETY: a header of zeroes is an empty message.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = vectors.as_mut_ptr();
    message.msg_iovlen = pieces.len().min(PIECES_MOST) as _;
    if let Some(descriptor) = descriptor {
        message.msg_control = control.bytes.as_mut_ptr().cast();
        // SAFETY: only computes.
        message.msg_controllen = unsafe { libc::CMSG_SPACE(size_of::<RawFd>() as u32) } as _;
        // SAFETY: the control buffer is aligned and has room for one header with one descriptor.
        unsafe {
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(size_of::<RawFd>() as u32) as _;
            libc::CMSG_DATA(header).cast::<RawFd>().write_unaligned(descriptor.as_raw_fd());
        }
    }
    // SAFETY: owned pieces are borrowed for the time of the call, and what is lent is mapped while `pieces` is; the
    // kernel only reads them.
    let sent =
        unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Receives into `first` and what it has no room for into `rest`; 0 is the end. Descriptors that came are appended.
pub fn receive(
    socket: BorrowedFd<'_>,
    first: &mut [u8],
    rest: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
) -> io::Result<usize> {
    let mut pieces =
        [first, rest].map(|piece| libc::iovec { iov_base: piece.as_mut_ptr().cast(), iov_len: piece.len() });
    let mut control = Control { bytes: [0; 64] };
    // SAFETY: a header of zeroes is an empty message.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = pieces.as_mut_ptr();
    message.msg_iovlen = pieces.len() as _;
    message.msg_control = control.bytes.as_mut_ptr().cast();
    // SAFETY: only computes.
    message.msg_controllen = unsafe { libc::CMSG_SPACE((size_of::<RawFd>() * DESCRIPTORS_MOST) as u32) } as _;
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: both pieces and the control buffer are exclusive memory of ours of the stated lengths.
    let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) };
    let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    // SAFETY: the kernel has written headers one after the other, as long as `msg_controllen` says.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    while !header.is_null() {
        // SAFETY: points at a whole header within the control buffer.
        let (level, kind, length) = unsafe { ((*header).cmsg_level, (*header).cmsg_type, (*header).cmsg_len as usize) };
        if level == libc::SOL_SOCKET && kind == libc::SCM_RIGHTS {
            // SAFETY: only computes.
            let count = (length - unsafe { libc::CMSG_LEN(0) } as usize) / size_of::<RawFd>();
            for index in 0..count {
                // SAFETY: the header says that so many descriptors follow it; each is ours from now on.
                unsafe {
                    let raw = libc::CMSG_DATA(header).cast::<RawFd>().add(index).read_unaligned();
                    descriptors.push(OwnedFd::from_raw_fd(raw));
                }
            }
        }
        // SAFETY: walks the headers that the kernel has written.
        header = unsafe { libc::CMSG_NXTHDR(&raw const message, header) };
    }
    Ok(received)
}
