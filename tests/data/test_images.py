"""Image files of every kind, in folders and zip files, compared with values known by hand or written by Pillow."""

import hashlib
import io
import multiprocessing
import os
import pickle
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from fcl_bench.data.images import Files, ImageFiles, decode, open_files
from fcl_bench.errors import UserError

RED, GREEN = (255, 0, 0), (0, 255, 0)


def encode(image: Image.Image, kind: str = "png", **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def red_and_green(mode: str) -> Image.Image:
    image = Image.new("RGB", (2, 1))
    image.putdata([RED, GREEN])
    return image.convert(mode)


@pytest.mark.parametrize("kind", ["png", "bmp", "ppm"])
def test_decode_is_channels_first_rgb(kind: str) -> None:
    image = decode(encode(red_and_green("RGB"), kind))
    assert image.dtype == torch.uint8
    assert image.tolist() == [[[255, 0]], [[0, 255]], [[0, 0]]]


@pytest.mark.parametrize(
    ("image", "options"),
    [
        (red_and_green("RGBA"), {}),
        (red_and_green("P"), {}),
        (red_and_green("P"), {"transparency": b"\x00\x80"}),
        (red_and_green("RGB"), {"kind": "webp", "lossless": True}),
    ],
    ids=["alpha", "palette", "palette with alpha", "webp"],
)
def test_decode_keeps_the_colours_of_other_modes(image: Image.Image, options: dict) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert decode(encode(image, **options)).tolist() == [[[255, 0]], [[0, 255]], [[0, 0]]]


@pytest.mark.parametrize(
    ("grey", "kind", "expected"),
    [
        (np.array([[0, 255, 256, 40000, 65535]], np.uint16), "png", [0, 0, 1, 156, 255]),
        (np.array([[0, 255, 256, 40000, 65535]], np.uint16), "ppm", [0, 0, 1, 156, 255]),
        (np.array([[0, 7, 255]], np.uint8), "png", [0, 7, 255]),
        (np.array([[False, True]]), "png", [0, 255]),
    ],
    ids=["16 bit", "16 bit ppm", "8 bit", "1 bit"],
)
def test_decode_scales_grey_to_eight_bits(grey: np.ndarray, kind: str, expected: list[int]) -> None:
    assert decode(encode(Image.fromarray(grey), kind)).tolist() == [[expected]] * 3


@pytest.fixture
def colours() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (60, 3), dtype=np.uint8)


@pytest.fixture(params=["folder", "zip"])
def files(request: pytest.FixtureRequest, tmp_path: Path, colours: np.ndarray) -> Files:
    """One image of one colour per file, among files that do not count."""
    root = tmp_path / "set"
    for number, colour in enumerate(colours):
        (root / "a").mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4), tuple(colour.tolist())).save(root / "a" / f"{number}.png")
    (root / ".hidden").touch()
    if request.param == "folder":
        return open_files(root)
    with zipfile.ZipFile(tmp_path / "set.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in root.rglob("*"):
            archive.write(path, path.relative_to(tmp_path))
        archive.write(root, root.name)
        archive.writestr("__MACOSX/set/._a", b"")
    return open_files(tmp_path / "set.zip")


def test_files_are_listed_with_sizes_and_digests(files: Files, tmp_path: Path, colours: np.ndarray) -> None:
    assert set(files.sizes) == {"a/"} | {f"a/{number}.png" for number in range(len(colours))}
    contents = (tmp_path / "set/a/7.png").read_bytes()
    assert files.read("a/7.png") == contents
    assert files.sizes["a/7.png"] == len(contents)
    assert files.digest("a/7.png") == hashlib.blake2b(contents, digest_size=16).hexdigest()


def test_read_follows_the_indices(files: Files, colours: np.ndarray) -> None:
    samples = ImageFiles(files, [f"a/{number}.png" for number in range(60)], np.zeros(60, np.int64))
    images = pickle.loads(pickle.dumps(samples)).read(np.array([5, 59, 5, 0]))
    assert images.shape == (4, 3, 4, 4)
    assert np.array_equal(images[:, :, 3, 0], colours[[5, 59, 5, 0]])


def read_colours(files: Files) -> np.ndarray:
    rounds = [[decode(files.read(f"a/{number}.png"))[:, 0, 0].numpy() for number in range(60)] for _ in range(20)]
    return np.array(rounds)


def test_reading_from_threads_and_forks_at_once(files: Files, colours: np.ndarray) -> None:
    read_colours(files)
    with ThreadPoolExecutor(4) as threads:
        assert all(np.array_equal(seen, [colours] * 20) for seen in threads.map(read_colours, [files] * 4))
    with multiprocessing.get_context("fork").Pool(3) as processes:
        assert all(np.array_equal(seen, [colours] * 20) for seen in processes.map(read_colours, [files] * 6, 1))


def test_images_of_several_sizes_come_as_a_list(tmp_path: Path) -> None:
    for width in (3, 5):
        Image.new("RGB", (width, 2)).save(tmp_path / f"{width}.png")
    samples = ImageFiles(open_files(tmp_path), ["3.png", "5.png"], np.array([0, 0]))
    assert [tuple(image.shape) for image in samples.read(np.array([1, 0, 1]))] == [(3, 2, 5), (3, 2, 3), (3, 2, 5)]


def test_a_lost_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "1.png").touch()
    files = open_files(tmp_path)
    (tmp_path / "1.png").unlink()
    with pytest.raises(UserError, match=f"Cannot read {tmp_path}/1.png: No such file"):
        files.digest("1.png")


def test_files_do_not_depend_on_the_working_directory(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    opened = open_files(Path(files.root.name))
    monkeypatch.chdir("/")
    assert opened.read("a/7.png") == files.read("a/7.png")


@pytest.mark.parametrize("kind", ["png", "jpeg", "bmp", "webp"])
@pytest.mark.parametrize("keep", [0.0, 0.5], ids=["empty", "half"])
def test_an_unreadable_image_is_named(tmp_path: Path, kind: str, keep: float) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    data = encode(Image.fromarray(noise), kind)
    (tmp_path / "bad.img").write_bytes(data[: int(len(data) * keep)])
    samples = ImageFiles(open_files(tmp_path), ["bad.img"], np.array([0]))
    with pytest.raises(UserError, match=rf"Cannot read the image bad\.img of {tmp_path} .*; replace it"):
        samples.read(np.array([0]))


def test_damage_inside_a_zip_file_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "set.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/1.bmp", encode(Image.new("RGB", (8, 8), RED), "bmp"))
    path.write_bytes(path.read_bytes().replace(bytes(RED[::-1]) * 8, bytes(GREEN) * 8, 1))
    samples = ImageFiles(open_files(path), ["1.bmp"], np.array([0]))
    with pytest.raises(UserError, match=r"Cannot read the image 1\.bmp of .*Bad CRC"):
        samples.read(np.array([0]))


def test_a_truncated_zip_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cut.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/1.png", bytes(1000))
    path.write_bytes(path.read_bytes()[:700])
    with pytest.raises(UserError, match=f"Cannot open {path} .*replace it by an intact copy"):
        open_files(path)


def test_decode_takes_cmyk_as_jpeg_has_it() -> None:
    image = Image.new("RGB", (16, 16), (200, 100, 50)).convert("CMYK")
    middle = decode(encode(image, "jpeg", quality=95))[:, 8, 8]
    assert (middle.int() - torch.tensor([200, 100, 50])).abs().max() <= 4


def test_decode_takes_the_first_image_of_an_animation() -> None:
    first, second = Image.new("RGB", (4, 4), RED), Image.new("RGB", (4, 4), GREEN)
    for kind in ("png", "webp"):
        data = encode(first, kind, save_all=True, append_images=[second], lossless=True)
        assert decode(data)[:, 0, 0].tolist() == list(RED)


def samples_of(folder: Path, name: str, data: bytes) -> ImageFiles:
    (folder / name).write_bytes(data)
    return ImageFiles(open_files(folder), [name], np.array([0]))


@pytest.mark.parametrize("kind", ["eps", "tiff", "gif", "ico", "pcx", "tga"])
def test_a_format_that_is_not_meant_stays_closed_whatever_its_name_says(tmp_path: Path, kind: str) -> None:
    samples = samples_of(tmp_path, "1.png", encode(red_and_green("RGB"), kind))
    with pytest.raises(UserError, match=r"Cannot read the image 1\.png of .*cannot identify image file"):
        samples.read(np.array([0]))


def test_a_name_with_another_meant_format_is_read_by_its_contents(tmp_path: Path) -> None:
    samples = samples_of(tmp_path, "1.jpg", encode(red_and_green("RGB"), "png"))
    assert samples.read(np.array([0])).tolist() == [[[[255, 0]], [[0, 255]], [[0, 0]]]]


def test_an_image_that_declares_too_many_pixels_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    header = struct.pack(">IIBBBBB", 9000, 9000, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(bytes(9))), (b"IEND", b"")]
    bodies = [
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in chunks
    ]
    samples = samples_of(tmp_path, "1.png", b"\x89PNG\r\n\x1a\n" + b"".join(bodies))
    with pytest.raises(UserError, match=r"it has 9000 x 9000 pixels, more than 67,108,864"):
        samples.read(np.array([0]))


def test_an_image_of_fractions_is_refused(tmp_path: Path) -> None:
    samples = samples_of(tmp_path, "1.ppm", b"Pf\n1 1\n-1.0\n" + struct.pack("<f", 0.5))
    with pytest.raises(UserError, match="its numbers are fractions"):
        samples.read(np.array([0]))


def test_an_image_that_changes_during_a_run_is_named(tmp_path: Path) -> None:
    data = encode(Image.new("RGB", (2, 2), RED), "bmp")
    samples = samples_of(tmp_path, "1.bmp", data)
    samples.digests = [hashlib.blake2b(data, digest_size=16).hexdigest()]
    assert samples.read(np.array([0])).shape == (1, 3, 2, 2)
    (tmp_path / "1.bmp").write_bytes(encode(Image.new("RGB", (2, 2), GREEN), "bmp"))
    with pytest.raises(UserError, match=r"The image 1\.bmp of .* was changed during the run"):
        samples.read(np.array([0]))


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("nowhere")], ids=["pipe", "dangling link"])
def test_what_is_no_file_is_named_and_not_waited_for(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "1.png")
    with pytest.raises(UserError, match=r"1\.png is not a file, but a pipe, a device or a link to nothing: remove it"):
        open_files(tmp_path)


def test_a_pipe_in_place_of_a_zip_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "set.zip")
    with pytest.raises(UserError, match="to be a folder or a zip file"):
        open_files(tmp_path / "set.zip")


def test_links_to_a_folder_above_are_not_followed_for_ever(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.png").touch()
    for name in ("up", "and_up"):
        (tmp_path / "a" / name).symlink_to(tmp_path)
    assert set(open_files(tmp_path).sizes) == {"a/", "a/1.png", "a/up/", "a/and_up/"}


def test_a_zip_file_with_two_files_of_one_name_is_refused(tmp_path: Path) -> None:
    with warnings.catch_warnings(), zipfile.ZipFile(tmp_path / "set.zip", "w") as archive:
        warnings.simplefilter("ignore")  # Python's own, about what is done here
        for content in (b"1", b"2"):
            archive.writestr("a/1.png", content)
    with pytest.raises(UserError, match=r"has 2 files of the name 'a/1\.png'"):
        open_files(tmp_path / "set.zip")


def test_a_zip_file_that_declares_far_more_than_it_can_hold_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fcl_bench.data.archives.ALWAYS_FINE", 10_000)
    for size, path in ((9_000, tmp_path / "fine.zip"), (200_000, tmp_path / "bomb.zip")):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a/1.bmp", bytes(size))
    assert open_files(tmp_path / "fine.zip").sizes["1.bmp"] == 9_000
    with pytest.raises(UserError, match=r"bomb\.zip declares 200,000 bytes of contents"):
        open_files(tmp_path / "bomb.zip")
