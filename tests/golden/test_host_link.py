from zlib import crc32

import pytest
from cobs import cobs
from hypothesis import given
from hypothesis import strategies as st

from seedbed.golden.host_link import FrameError, HostLink, Packet, decode, encode
from seedbed.spec import HostLinkConfig
from seedbed.spec.host_link import RESPONSE, LinkError, Operation

#: Zeros are frequent, and runs reach the longest group.
BYTES = st.one_of(
    st.binary(max_size=40),
    st.lists(st.sampled_from([0, 1, 255]), max_size=600).map(bytes),
    st.lists(st.integers(252, 256).map(lambda n: b"\1" * n), max_size=4).map(b"\0".join),
    st.integers(250, 512).map(lambda n: b"\1" * n),
)


@given(BYTES)
def test_frames_are_those_of_the_library(raw):
    sealed = raw + crc32(raw).to_bytes(4, "little")
    assert encode(raw) == cobs.encode(sealed) + b"\0"
    assert decode(encode(raw)[:-1]) == raw


def test_published_check_value():
    assert cobs.decode(encode(b"123456789")[:-1])[-4:] == bytes.fromhex("2639f4cb")


@given(st.binary(min_size=1, max_size=40), st.data())
def test_a_damaged_frame_is_refused(raw, data):
    frame = bytearray(encode(raw)[:-1])
    place = data.draw(st.integers(0, len(frame) - 1))
    frame[place] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(FrameError):
        decode(bytes(frame))


@given(st.binary(min_size=1, max_size=40), st.data())
def test_an_incomplete_frame_is_refused(raw, data):
    frame = encode(raw)[:-1]
    with pytest.raises(FrameError):
        decode(frame[: data.draw(st.integers(0, len(frame) - 1))])


@pytest.mark.parametrize("length", [0, 4, 9])
def test_a_packet_of_another_length_is_refused(length):
    with pytest.raises(FrameError, match=f"not {length}"):
        Packet.from_bytes(bytes(length))


class Registers:
    def __init__(self, depth=4):
        self.values, self.writes = {}, []
        self.link = HostLink(HostLinkConfig(depth=depth), read=self.read, write=self.write)

    def read(self, address):
        return self.values.get(address, 0)

    def write(self, address, value):
        self.writes.append((address, value))
        self.values[address] = value

    def __call__(self, *fields):
        frame = encode(Packet(*fields).to_bytes())
        answer = self.link.answer(frame[:-1])
        packet = Packet.from_bytes(decode(answer[:-1]))
        return packet.operation & ~RESPONSE, packet.sequence, packet.data, packet.words


def test_registers():
    send = Registers()
    assert send(Operation.WRITE, 1, 7, 42) == (Operation.WRITE, 1, 42, [])
    assert send(Operation.READ, 2, 7) == (Operation.READ, 2, 42, [])


def test_a_repeated_write_is_done_once():
    send = Registers()
    answers = [send(Operation.WRITE, 1, 7, 42) for _ in range(3)]
    assert answers == [(Operation.WRITE, 1, 42, [])] * 3
    assert send.writes == [(7, 42)]


@pytest.mark.parametrize("sequence", [0x7F, 255, 2])
def test_another_sequence_number_is_refused(sequence):
    send = Registers()
    assert send(Operation.WRITE, sequence, 7, 42) == (0, 0, LinkError.SEQUENCE, [])
    assert not send.writes


def test_a_new_host_learns_the_sequence_number():
    send = Registers()
    for sequence in range(1, 300):
        send(Operation.WRITE, sequence % 256, 0, sequence)
    assert send(Operation.HELLO, 99, 0, 0xABCD) == (Operation.HELLO, 299 % 256, 0xABCD, [])
    send(Operation.WRITE, 300 % 256, 0, 300)
    assert len(send.writes) == 300


def test_words_stay_until_the_host_has_them():
    send = Registers(depth=4)
    assert [send.link.push(word) for word in range(10, 16)] == [True] * 4 + [False] * 2
    assert send(Operation.WORDS, 1, 3, 0) == (Operation.WORDS, 1, 0, [10, 11, 12])
    assert send(Operation.WORDS, 1, 2, 0) == (Operation.WORDS, 1, 0, [10, 11])
    assert send(Operation.WORDS, 2, 9, 2) == (Operation.WORDS, 2, 2, [12, 13])
    assert send(Operation.WORDS, 3, 0, 0) == (Operation.WORDS, 3, 2, [])
    assert send(Operation.WORDS, 4, 1, 0) == (0, 4, LinkError.POSITION, [])
    assert send(Operation.WORDS, 5, 1, 5) == (0, 5, LinkError.POSITION, [])
    assert send(Operation.WORDS, 6, 1, 4) == (Operation.WORDS, 6, 4, [])


def test_words_from_the_host_are_accepted_once_and_in_order():
    link = HostLink(HostLinkConfig(receive_depth=4), read=int, write=lambda *_: None)

    def send(position, *words):
        response = link.respond(Packet(Operation.SEND, 5, 0, position, list(words)))
        assert (response.operation, response.sequence) == (RESPONSE | Operation.SEND, 5)
        return response.data, response.argument

    assert send(0, 10, 11, 12) == (3, 1)
    assert send(0, 10, 11, 12) == (3, 1)
    assert send(4, 14) == (3, 1)
    assert send(3, 13, 14) == (3, 1)
    assert [link.pop() for _ in range(2)] == [10, 11]
    assert send(3, 13, 14) == (5, 1)
    assert send(9) == (5, 1)
    assert [link.pop() for _ in range(4)] == [12, 13, 14, None]
    assert link.sequence == 0


def test_an_unknown_operation_is_refused():
    assert Registers()(9, 1) == (0, 1, LinkError.OPERATION, [])


@pytest.mark.parametrize("frame", [b"", b"\1", encode(b"1234")[:-1], encode(bytes(12))[:-1]])
def test_what_is_no_request_has_no_answer(frame):
    assert Registers().link.answer(frame) == b""
