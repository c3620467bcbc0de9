//! Who is behind a socket of this machine, where the system tells.

use std::net::SocketAddr;

/// A process that listens on a port.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(target_os = "linux"),
    expect(dead_code, reason = "only Linux tells")
)]
pub(super) struct PortOwner {
    /// Who it is, for a message.
    pub(super) name: String,
    /// Its id, if it may be known.
    pub(super) process: Option<u32>,
}

#[cfg(not(target_os = "linux"))]
pub(super) fn port_owner(_: u16) -> Option<PortOwner> {
    None
}

/// Whether a connection from `peer` to our `local` address may belong to this user.
#[cfg(not(target_os = "linux"))]
pub(super) fn is_own_user(_: SocketAddr, _: SocketAddr) -> bool {
    true
}

#[cfg(target_os = "linux")]
pub(super) use linux::{is_own_user, port_owner};

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
    use std::os::unix::fs::MetadataExt as _;

    use super::{PortOwner, SocketAddr};

    /// The tables of the kernel, for IPv4 and IPv6.
    const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];

    /// The state of a listening socket in the tables.
    const LISTEN: &str = "0A";

    /// The inode of a socket that no process has any more.
    const CLOSED: &str = "0";

    /// A row of a table.
    #[derive(Debug, PartialEq, Eq)]
    pub(super) struct Socket<'t> {
        local: &'t str,
        remote: &'t str,
        state: &'t str,
        user: u32,
        inode: &'t str,
    }

    /// Finds the program that listens on a port of the loopback addresses. A program of another
    /// user is known only by that user.
    pub(in super::super) fn port_owner(port: u16) -> Option<PortOwner> {
        let tables = TABLES.map(|table| fs::read_to_string(table).unwrap_or_default());
        let listener = tables.iter().find_map(|table| find_listener(table, port))?;
        let Some(process) = process_with(&format!("socket:[{}]", listener.inode)) else {
            return Some(PortOwner {
                name: format!("a program of user {}", listener.user),
                process: None,
            });
        };
        let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
        // A program chooses its name.
        let name = format!("\"{}\" (process {process})", crate::error::foreign(&name));
        Some(PortOwner {
            name,
            process: Some(process),
        })
    }

    /// Whether a connection from `peer` to our `local` address may belong to this user: it does,
    /// or root has it, as for a forwarded port, or it comes from outside of these tables, as from
    /// the host of a virtual machine.
    pub(in super::super) fn is_own_user(peer: SocketAddr, local: SocketAddr) -> bool {
        let Ok(ours) = fs::metadata("/proc/self").map(|process| process.uid()) else {
            return true;
        };
        let tables = TABLES.map(|table| fs::read_to_string(table).unwrap_or_default());
        let mut ends = tables
            .iter()
            .filter_map(|table| find_connection(table, peer, local));
        match ends.next() {
            Some(OtherEnd::User(user)) => user == ours || user == 0,
            // A browser waits for the page.
            Some(OtherEnd::Closed) => false,
            None => true,
        }
    }

    /// The other end of a connection.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum OtherEnd {
        User(u32),
        /// No process has it any more. The kernel shows root as its user.
        Closed,
    }

    /// Finds the socket that keeps others from a loopback port.
    pub(super) fn find_listener(table: &str, port: u16) -> Option<Socket<'_>> {
        let conflicting = [
            IpAddr::from(Ipv4Addr::LOCALHOST),
            Ipv4Addr::UNSPECIFIED.into(),
            Ipv6Addr::LOCALHOST.into(),
            Ipv6Addr::UNSPECIFIED.into(),
            Ipv4Addr::LOCALHOST.to_ipv6_mapped().into(),
        ]
        .map(|address| kernel_text(SocketAddr::new(address, port)));
        sockets(table).find(|socket| {
            socket.state == LISTEN && conflicting.iter().any(|text| text == socket.local)
        })
    }

    /// Finds the other end of a connection.
    pub(super) fn find_connection(
        table: &str,
        peer: SocketAddr,
        local: SocketAddr,
    ) -> Option<OtherEnd> {
        // A program may use an IPv6 socket for an IPv4 address.
        let pairs = [(peer, local), (mapped(peer), mapped(local))];
        let pairs = pairs.map(|(theirs, ours)| (kernel_text(theirs), kernel_text(ours)));
        let is_it = |socket: &Socket| {
            let ends =
                |(theirs, ours): &(String, String)| socket.local == theirs && socket.remote == ours;
            pairs.iter().any(ends)
        };
        let found = sockets(table).find(is_it)?;
        Some(match found.inode {
            CLOSED => OtherEnd::Closed,
            _ => OtherEnd::User(found.user),
        })
    }

    fn mapped(address: SocketAddr) -> SocketAddr {
        match address.ip() {
            IpAddr::V4(ip) => SocketAddr::new(ip.to_ipv6_mapped().into(), address.port()),
            IpAddr::V6(_) => address,
        }
    }

    fn sockets(table: &str) -> impl Iterator<Item = Socket<'_>> {
        table.lines().skip(1).filter_map(|line| {
            let columns: Vec<&str> = line.split_whitespace().collect();
            Some(Socket {
                local: columns.get(1)?,
                remote: columns.get(2)?,
                state: columns.get(3)?,
                user: columns.get(7)?.parse().ok()?,
                inode: columns.get(9)?,
            })
        })
    }

    /// An address as the kernel prints it: in words of four bytes, each as a native number.
    fn kernel_text(address: SocketAddr) -> String {
        let bytes = match address.ip() {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        let words = bytes.chunks_exact(4).map(|word| {
            let number = word.try_into().map(u32::from_ne_bytes).unwrap_or_default();
            format!("{number:08X}")
        });
        format!("{}:{:04X}", words.collect::<String>(), address.port())
    }

    /// Finds the process that has a file open, among those whose files may be listed.
    fn process_with(file: &str) -> Option<u32> {
        let entries = fs::read_dir("/proc").ok()?.flatten();
        let mut processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        processes.find(|process: &u32| {
            let Ok(files) = fs::read_dir(format!("/proc/{process}/fd")) else {
                return false;
            };
            files
                .flatten()
                .any(|open| fs::read_link(open.path()).is_ok_and(|to| to.as_os_str() == file))
        })
    }

    #[cfg(all(test, target_endian = "little"))]
    mod tests {
        use super::*;

        fn table(local: &str, remote: &str, state: &str) -> String {
            format!(
                "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt\n\
                 \x20  0: {local} {remote} {state} 00000000:00000000 00:00000000 00000000 \
                 1000        0 4711 1 0000000000000000 100 0 0 10 0\n"
            )
        }

        #[test]
        fn only_a_socket_that_listens_on_loopback_counts() {
            let cases = [
                ("0100007F:1F90", "0A", true),
                ("00000000:1F90", "0A", true),
                ("00000000000000000000000001000000:1F90", "0A", true),
                ("00000000000000000000000000000000:1F90", "0A", true),
                ("0000000000000000FFFF00000100007F:1F90", "0A", true),
                // Connected, another port, another interface.
                ("0100007F:1F90", "01", false),
                ("0100007F:1F91", "0A", false),
                ("0A01A8C0:1F90", "0A", false),
            ];
            for (local, state, expected) in cases {
                let table = table(local, "00000000:0000", state);
                let found = find_listener(&table, 8080);
                let found = found.map(|socket| (socket.user, socket.inode));
                assert_eq!(found, expected.then_some((1000, "4711")), "{local} {state}");
            }
            assert_eq!(find_listener("", 1), None);
            assert_eq!(find_listener("sl\n0: 0100007F:0001 x 0A", 1), None);
        }

        #[test]
        fn the_other_end_of_a_connection_has_a_user() {
            let table = table("0100007F:9C40", "0100007F:1F90", "01");
            let at = |text: &str| text.parse::<SocketAddr>().unwrap();
            let (peer, local) = (at("127.0.0.1:40000"), at("127.0.0.1:8080"));
            let user = Some(OtherEnd::User(1000));
            assert_eq!(find_connection(&table, peer, local), user);
            assert_eq!(find_connection(&table, local, peer), None);
            assert_eq!(find_connection(&table, at("[::1]:40000"), local), None);
            let closed = table.replace(" 4711 ", " 0 ");
            let closed = find_connection(&closed, peer, local);
            assert_eq!(closed, Some(OtherEnd::Closed));
            let six = |text: &str| text.replace("0100007F", "0000000000000000FFFF00000100007F");
            assert_eq!(find_connection(&six(&table), peer, local), user);
        }
    }
}
