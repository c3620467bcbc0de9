"""Answers the prompts of GNOME Keyring with a password, in place of a window.

Usage: prompter.py PASSWORD LOG. It adds a line to the file LOG for each prompt. An empty password
dismisses the prompts.

The protocol is that of gcr: the secret travels encrypted with AES-128, whose key comes from
Diffie-Hellman in the 1536-bit MODP group of RFC 3526.
"""

import base64
import hashlib
import hmac
import os
import secrets
import sys

from cryptography.hazmat.primitives import padding
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from jeepney import DBusAddress, HeaderFields, MessageType, new_method_call, new_method_return
from jeepney.bus_messages import message_bus
from jeepney.io.blocking import open_dbus_connection

PRIME = int(
    "FFFFFFFFFFFFFFFFC90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74020BBEA63B139B22514A08798E3404DD"
    "EF9519B3CD3A431B302B0A6DF25F14374FE1356D6D51C245E485B576625E7EC6F44C42E9A637ED6B0BFF5CB6F406B7ED"
    "EE386BFB5A899FA5AE9F24117C4B1FE649286651ECE45B3DC2007CB8A163BF0598DA48361C55D39A69163FA8FD24CF5F"
    "83655D23DCA3AD961C62F356208552BB9ED529077096966D670C354E4ABC9804F1746C08CA237327FFFFFFFFFFFFFFFF",
    16,
)
SIZE = (PRIME.bit_length() + 7) // 8

password, log = sys.argv[1].encode(), sys.argv[2]
private = secrets.randbits(1500)
public = base64.b64encode(pow(2, private, PRIME).to_bytes(SIZE)).decode()


def exchange(theirs: str | None = None) -> str:
    """Our half of the exchange, with the password once theirs is known."""
    lines = ["[sx-aes-1]", f"public={public}"]
    if theirs is not None:
        fields = dict(line.split("=", 1) for line in theirs.splitlines() if "=" in line)
        peer = int.from_bytes(base64.b64decode(fields["public"]))
        shared = pow(peer, private, PRIME)
        shared = shared.to_bytes((shared.bit_length() + 7) // 8)
        extracted = hmac.digest(bytes(hashlib.sha256().digest_size), shared, "sha256")
        key = hmac.digest(extracted, b"\x01", "sha256")[:16]
        iv = os.urandom(16)
        padder = padding.PKCS7(128).padder()
        encryptor = Cipher(algorithms.AES(key), modes.CBC(iv)).encryptor()
        sealed = encryptor.update(padder.update(password) + padder.finalize()) + encryptor.finalize()
        lines += [f"secret={base64.b64encode(sealed).decode()}", f"iv={base64.b64encode(iv).decode()}"]
    return "\n".join(lines) + "\n"


connection = open_dbus_connection(os.environ["DBUS_SESSION_BUS_ADDRESS"])
connection.send_and_get_reply(message_bus.RequestName("org.gnome.keyring.SystemPrompter"))


def answer(message, signature, body):
    """Tell the keychain the answer to its prompt."""
    fields = message.header.fields
    callback = DBusAddress(
        message.body[0],
        bus_name=fields[HeaderFields.sender],
        interface="org.gnome.keyring.internal.Prompter.Callback",
    )
    member = "PromptReady" if signature else "PromptDone"
    connection.send(new_method_call(callback, member, signature, body))


while True:
    message = connection.receive()
    if message.header.message_type is not MessageType.method_call:
        continue
    connection.send(new_method_return(message))
    match message.header.fields.get(HeaderFields.member):
        case "BeginPrompting":
            answer(message, "sa{sv}s", ("", {}, exchange()))
        case "PerformPrompt":
            with open(log, "a") as file:
                file.write(f"{message.body[1]}\n")
            if password:
                answer(message, "sa{sv}s", ("yes", {}, exchange(message.body[3])))
            else:
                answer(message, "sa{sv}s", ("no", {}, exchange()))
        case "StopPrompting":
            answer(message, None, ())
