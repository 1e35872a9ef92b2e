"""Secure sums: masks cancel to the bit whoever drops out, and hide what a client has sent."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pytest
import torch
from conftest import contents
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as some

from fcl_bench import ConfigError, UserError
from fcl_bench.client import Client
from fcl_bench.privacy import REPLY, Participants
from fcl_bench.privacy.masks import add_masks, new_key, public_part, shared_key
from fcl_bench.privacy.secure_sum import TYPES, SecureSum


@dataclass(frozen=True)
class Upload:
    numbers: torch.Tensor
    count: torch.Tensor
    nothing: None = None


class Sends:
    """A method whose clients send what the test says."""

    adds_whole_numbers = True

    def __init__(self, uploads):
        self.uploads = uploads

    def tell(self, client):
        return self.uploads[client.id]


class Wires:
    """Carries out the steps of an exchange, and keeps what the server sees."""

    def __init__(self, privacy, method, clients):
        self.privacy = privacy
        self.method = method
        self.clients = {client: Client(client, None, None) for client in clients}
        self.seen = []

    def ask(self, step, message, asked, answering):
        for client in answering:
            reply = self.privacy.answer(self.method, "tell", self.clients[client], step, message)
            self.seen.append((step, client, reply))
            yield client, reply

    def exchange(self, answering):
        participants = Participants(tuple(self.clients), tuple(answering))
        return list(self.privacy.receive(self.ask, (), participants, 0))


def uploads_of(numbers):
    """One for each client, of small integer types, as methods send them."""
    return [Upload(torch.tensor(row, dtype=torch.int16), torch.tensor(sum(row))) for row in numbers]


def secure(neighbours=4, colluding=1, bits=None):
    return SecureSum("secure_sum", neighbours, colluding, bits)


@given(some.data())
@settings(deadline=None, max_examples=40)
def test_the_server_gets_the_sum_to_the_bit_whoever_drops_out(data):
    neighbours = data.draw(some.sampled_from([2, 4, 6]))
    bits = data.draw(some.sampled_from([None, 32, 64]))
    privacy = secure(neighbours, data.draw(some.integers(0, 1)), bits)
    clients = data.draw(some.integers(privacy.colluding + 2, 9))
    sizes = some.lists(some.integers(-(2**15), 2**15 - 1), min_size=5, max_size=5)
    numbers = data.draw(some.lists(sizes, min_size=clients, max_size=clients))
    bearable = min(privacy.neighbours, clients - 1) - 1 - privacy.colluding
    dropped = data.draw(some.sets(some.integers(0, clients - 1), max_size=max(bearable, 0)))
    answering = data.draw(some.permutations(sorted(set(range(clients)) - dropped)))
    wires = Wires(privacy, Sends(uploads_of(numbers)), range(clients))
    if bearable < 0:
        with pytest.warns(UserWarning, match="too many to open the sum"):
            assert wires.exchange(answering) == []
        return
    (received,) = wires.exchange(answering)
    rows = np.array([numbers[client] for client in answering])
    assert received.reply.numbers.tolist() == rows.sum(axis=0).tolist()
    assert int(received.reply.count) == rows.sum()
    assert received.reply.nothing is None
    assert sorted(received.clients) == sorted(answering)


def test_too_many_drop_outs_leave_the_sum_closed():
    wires = Wires(secure(), Sends(uploads_of([[1]] * 5)), range(5))
    with pytest.warns(UserWarning, match="3 of 5 clients have dropped out, too many to open the sum"):
        assert wires.exchange([0, 3]) == []
    assert {step for step, _, _ in wires.seen} == {"keys", REPLY}  # no mask is asked for


def test_an_upload_shows_nothing_of_what_is_in_it():
    """Of the same numbers in two exchanges: all bits of what is sent are as if tossed."""
    zeros = Upload(torch.zeros(4000, dtype=torch.int16), torch.tensor(0))
    sent = []
    for _ in range(2):
        wires = Wires(secure(), Sends([zeros] * 5), range(5))
        wires.exchange(range(5))
        sent += [reply.numbers for step, _, reply in wires.seen if step == REPLY]
    bits = np.unpackbits(torch.stack(sent).numpy().view(np.uint8), axis=1)
    assert abs(bits.mean() - 0.5) < 0.005  # ten times the deviation of 2,560,000 tosses
    distinct = {numbers.numpy().tobytes() for numbers in sent}
    assert len(distinct) == len(sent)


def test_what_is_told_after_a_drop_out_opens_masks_of_those_who_dropped_out_only():
    wires = Wires(secure(), Sends(uploads_of([[7]] * 6)), range(6))
    wires.exchange([0, 1, 2, 4, 5])
    told = {client: set(reply) for step, client, reply in wires.seen if step == "seeds"}
    assert told == {1: {3}, 2: {3}, 4: {3}, 5: {3}}  # its neighbours, two on either side


@pytest.mark.parametrize("neighbours", [2, 4])
@pytest.mark.parametrize("clients", range(3, 9))
def test_the_circle_holds_together_without_fewer_than_its_neighbours(neighbours, clients):
    """Else the server could open a part of the sum: tried for all groups that collude or drop out."""
    circle = list(range(clients))
    privacy = secure(neighbours, colluding=0)
    links = {client: set(privacy._neighbours(client, circle)) for client in circle}
    for out in range(min(neighbours, clients - 1)):
        for group in combinations(circle, out):
            left = set(circle) - set(group)
            reached = {min(left)}
            while more := {other for one in reached for other in links[one] & left} - reached:
                reached |= more
            assert reached == left


@pytest.mark.parametrize("bits", [32, 64])
def test_a_mask_is_the_key_stream_of_the_agreed_key(bits):
    """The same for both clients; AES-128 in counter mode over the shared key, read as numbers of so many bits."""
    one = new_key()
    other = new_key()
    key = shared_key(one, public_part(other))
    assert torch.equal(key, shared_key(other, public_part(one)))
    size = 2**16 + 5  # several pieces
    numbers = torch.full((size,), 3, dtype=TYPES[bits])
    add_masks(numbers, [(key, 1)])
    cipher = Cipher(algorithms.AES(key.numpy().tobytes()), modes.CTR(bytes(16))).encryptor()
    stream = np.frombuffer(cipher.update(bytes(bits // 8 * size)), dtype=f"<i{bits // 8}")
    np.testing.assert_array_equal(numbers.numpy(), stream + 3)
    add_masks(numbers, [(key, -1)])
    assert numbers.tolist() == [3] * size


def test_a_sum_that_may_not_fit_is_refused_at_the_client():
    """Three times 2^31 / 3 is more than 32 bits hold."""
    most = (2**31 - 1) // 3
    for largest, bits in ((most, 32), (2**33, 64)):
        uploads = [Upload(torch.tensor([largest, -largest]), torch.tensor(0))] * 3
        (received,) = Wires(secure(bits=bits), Sends(uploads), range(3)).exchange(range(3))
        assert received.reply.numbers.tolist() == [3 * largest, -3 * largest]
    uploads = [Upload(torch.tensor([0, -most - 1]), torch.tensor(0))] * 3
    complaint = r"has the number 715,827,883, but .* 3 clients in 32 bits .* set privacy.bits=64"
    with pytest.raises(UserError, match=complaint):
        Wires(secure(bits=32), Sends(uploads), range(3)).exchange(range(3))


def test_replies_that_are_no_whole_numbers_are_refused():
    wires = Wires(secure(), Sends([Upload(torch.zeros(2), torch.tensor(0))] * 3), range(3))
    with pytest.raises(UserError, match=r"Expected replies of tensors of whole numbers .* one of torch\.float32"):
        wires.exchange(range(3))


def test_replies_of_different_shapes_are_refused():
    wires = Wires(secure(), Sends(uploads_of([[1], [1, 2], [1]])), range(3))
    with pytest.raises(UserError, match=r"message\.numbers has \(1,\) at one client and \(2,\) at another"):
        wires.exchange(range(3))


def test_too_few_clients_are_refused():
    wires = Wires(secure(), Sends(uploads_of([[1]] * 2)), range(2))
    with pytest.raises(UserError, match=r"at least 3 clients .* privacy\.colluding=1, but 2 take part"):
        wires.exchange(range(2))


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ((3, 1), r"privacy\.neighbours to be even, .* but got 3"),
        ((2, 2), r"privacy\.colluding=2 to be less than privacy\.neighbours=2"),
    ],
)
def test_settings_without_a_meaning_are_refused(values, complaint):
    with pytest.raises(ConfigError, match=complaint):
        SecureSum("secure_sum", *values, bits=None)


@pytest.mark.parametrize("words", ["method=finetune", "method=afcl method.arithmetic=float64"])
def test_a_method_that_adds_no_whole_numbers_is_refused(tiny, output_dir, words):
    done = tiny("privacy=secure_sum", *words.split())
    assert done.code == 2
    assert "whose server only adds whole numbers" in done.err
    assert not output_dir.exists()


@pytest.mark.parametrize("method", ["afcl", "fedncm"])
def test_a_run_ends_with_the_same_model_to_the_bit(tiny, tmp_path, method):
    plain = tiny(f"method={method}")
    secret = tiny(f"method={method}", "privacy=secure_sum", "transport=processes", "transport.workers=2")
    assert secret.result["evidence"] == plain.result["evidence"]
    np.testing.assert_array_equal(secret.predictions, plain.predictions)
    assert secret.result["privacy"] == {"name": "secure_sum", "neighbours": 4, "colluding": 1}
    assert secret.result["run_id"] != plain.result["run_id"]


@pytest.mark.parametrize(("bits", "size"), [(7, 4), (16, 8)])
def test_bytes_of_all_steps_are_counted(tiny, bits, size):
    """Sums of 7 bits fit into numbers of 4 bytes.

    In the last task: three clients, six classes, 16 features, whose triangle of one panel has all 256 numbers.
    """
    line = tiny("method=afcl", f"method.bits={bits}", "privacy=secure_sum").exchanges[-1]
    assert (line["asked"], line["answered"]) == (3, 3)
    public_key = 32
    upload = size * (16 * 16 + 6 * 16 + 2)
    assert line["uplink_bytes"] == 3 * (public_key + upload)
    links = 3 * 2 * (8 + public_key)  # of each client the numbers and keys of its two neighbours, sent to all
    assert line["downlink_bytes"] == 3 * (links + 8)


def test_a_run_with_drop_outs_is_that_of_the_others(tiny):
    words = ("method=afcl", "federation.dropout=0.2", "partition.clients=6", "seed=4")
    plain = tiny(*words)
    secret = tiny(*words, "privacy=secure_sum")
    assert any(line["answered"] < line["asked"] for line in plain.exchanges)
    assert secret.result["evidence"] == plain.result["evidence"]


def test_a_bad_setting_leaves_nothing_behind(tiny, tmp_path):
    before = contents(tmp_path)
    done = tiny("method=afcl", "privacy=secure_sum", "privacy.neighbours=0")
    assert done.code == 2
    assert "privacy.neighbours" in done.err
    assert contents(tmp_path) == before
