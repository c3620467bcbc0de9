//! The network of the sandbox.

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

use super::because;
use crate::hosts::HostRule;

/// `RTM_NEWLINK`, `NLM_F_REQUEST | NLM_F_ACK`, `NLMSG_ERROR` and `IFF_UP` of the kernel.
const NEW_LINK: u16 = 16;
const REQUEST_ACK: u16 = 1 | 4;
const ERROR: u16 = 2;
const UP: u32 = 1;

/// The loopback interface is always the first.
const LOOPBACK: i32 = 1;

/// Enables the loopback interface of this network namespace.
pub(super) fn enable_loopback() -> Result<(), String> {
    let failed = "the loopback interface cannot be enabled";
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        // Routing, the first protocol.
        None,
    )
    .map_err(because(failed))?;
    send(&socket, &up_message(), SendFlags::empty()).map_err(because(failed))?;
    let mut answer = [0; 64];
    let (length, _) = recv(&socket, &mut answer, RecvFlags::empty()).map_err(because(failed))?;
    if !acknowledged(&answer[..length]) {
        return Err(format!("{failed}: the kernel refused it"));
    }
    Ok(())
}

/// A message that enables the loopback interface.
fn up_message() -> Vec<u8> {
    let mut message = Vec::with_capacity(32);
    message.extend(32_u32.to_ne_bytes());
    message.extend(NEW_LINK.to_ne_bytes());
    message.extend(REQUEST_ACK.to_ne_bytes());
    // Sequence number and port.
    message.extend([0; 8]);
    // Family, padding and type.
    message.extend([0; 4]);
    message.extend(LOOPBACK.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    message
}

/// Whether the answer is an error message with the error 0.
fn acknowledged(answer: &[u8]) -> bool {
    let kind = answer.get(4..6).map(|kind| kind == ERROR.to_ne_bytes());
    kind == Some(true) && answer.get(16..20) == Some(&[0; 4])
}

/// The variables that lead programs to the proxy.
pub(super) fn proxy_variables(port: u16, hosts: &[HostRule]) -> Vec<(&'static str, String)> {
    let url = format!("http://127.0.0.1:{port}");
    let names = ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"];
    let mut variables: Vec<_> = names.into_iter().map(|name| (name, url.clone())).collect();
    // Node does not look at them otherwise.
    variables.push(("NODE_USE_ENV_PROXY", "1".to_owned()));
    let is_loopback = |rule: &HostRule| {
        rule.host == "localhost" || rule.host.starts_with("127.") || rule.host == "::1"
    };
    // The sandbox has its own loopback interface, unless the machine's is meant.
    if !hosts.iter().any(is_loopback) {
        for name in ["NO_PROXY", "no_proxy"] {
            variables.push((name, "localhost,127.0.0.1,::1".to_owned()));
        }
    }
    variables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_error_of_zero_is_an_acknowledgement() {
        let mut answer = [0; 36];
        answer[4..6].copy_from_slice(&ERROR.to_ne_bytes());
        assert!(acknowledged(&answer));
        answer[16] = 0xff;
        assert!(!acknowledged(&answer));
        assert!(!acknowledged(&[]));
        assert_eq!(up_message().len(), 32);
    }
}
