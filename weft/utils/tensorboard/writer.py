"""SummaryWriter: what a training program writes for TensorBoard to show."""

from __future__ import annotations

import itertools
import os
import socket
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from weft.support.errors import ArgumentError, Unsupported
from weft.utils.tensorboard import messages as m
from weft.utils.tensorboard import summaries

_files = itertools.count()  # of this process: the last part of their names
_VERSION = "brain.Event:2"


class FileWriter:
    """A file of events in `log_dir`, which is made where it is not there. Events are written when `max_queue` of them
    have come, when the last write was `flush_secs` ago, and by flush and close."""

    def __init__(
        self, log_dir: str | os.PathLike[str], max_queue: int = 10, flush_secs: float = 120, filename_suffix: str = ""
    ) -> None:
        self._folder, self._max_queue, self._flush_secs = str(log_dir), max_queue, flush_secs
        os.makedirs(self._folder, exist_ok=True)
        name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.{next(_files)}"
        self._path = Path(self._folder) / (name + filename_suffix)
        self._waiting: list[bytes] = []
        self._written = time.monotonic()
        self._add(m.double(1, time.time()) + m.text(3, _VERSION))
        self.flush()

    def get_logdir(self) -> str:
        """The folder."""
        return self._folder

    def add_summary(self, summary: bytes, global_step: Any = None, walltime: float | None = None) -> None:
        """Write a Summary with a step, at a time in seconds (now)."""
        self.add_event(m.message(5, summary), global_step, walltime)

    def add_event(self, fields: bytes, step: Any = None, walltime: float | None = None) -> None:
        """Write an Event of these fields, with a step, at a time in seconds (now)."""
        at = time.time() if walltime is None else float(walltime)
        self._add(m.double(1, at) + m.integer(2, 0 if step is None else int(step)) + fields)

    def _add(self, event: bytes) -> None:
        self._waiting.append(m.record(event))
        if len(self._waiting) > self._max_queue or time.monotonic() - self._written > self._flush_secs:
            self.flush()

    def flush(self) -> None:
        """Write what waits."""
        with self._path.open("ab") as file:
            file.write(b"".join(self._waiting))
        self._waiting.clear()
        self._written = time.monotonic()

    def close(self) -> None:
        """Write what waits."""
        self.flush()

    def reopen(self) -> None:
        """Nothing: a file is open only while it is written to."""


class SummaryWriter:
    """Writes summaries into a file of events in `log_dir` (runs/DATE_HOST with `comment` behind it). purge_step: events
    of this step and later ones, of a run before that crashed, are not shown. A context manager that closes it."""

    def __init__(
        self, log_dir: str | os.PathLike[str] | None = None, comment: str = "", purge_step: int | None = None,
        max_queue: int = 10, flush_secs: float = 120, filename_suffix: str = "",
    ) -> None:  # fmt: skip
        if not log_dir:
            log_dir = os.path.join("runs", f"{datetime.now():%b%d_%H-%M-%S}_{socket.gethostname()}{comment}")
        self.log_dir = log_dir
        self.purge_step, self.max_queue, self.flush_secs = purge_step, max_queue, flush_secs
        self.filename_suffix = filename_suffix
        self.file_writer: FileWriter | None = None
        self.all_writers: dict[str, FileWriter] | None = None
        self._get_file_writer()
        positive = 1e-12 * 1.1 ** np.arange(775)  # up to 1e20
        self.default_bins = [*(-positive[::-1]).tolist(), 0.0, *positive.tolist()]

    def _get_file_writer(self) -> FileWriter:
        """The file that is written to; another one after close."""
        if self.file_writer is None or self.all_writers is None:
            self.file_writer = self._file(str(self.log_dir))
            self.all_writers = {self.file_writer.get_logdir(): self.file_writer}
            if self.purge_step is not None:
                self.file_writer.add_event(m.text(3, _VERSION), self.purge_step)
                self.file_writer.add_event(m.message(7, m.integer(1, 1)), self.purge_step)
                self.purge_step = None
        return self.file_writer

    def _file(self, folder: str) -> FileWriter:
        return FileWriter(folder, self.max_queue, self.flush_secs, self.filename_suffix)

    def _add(self, summary: bytes, step: Any, walltime: float | None) -> None:
        self._get_file_writer().add_summary(summary, step, walltime)

    def get_logdir(self) -> str | os.PathLike[str]:
        """The folder that files are written to."""
        return self.log_dir

    def add_scalar(
        self, tag: str, scalar_value: Any, global_step: Any = None, walltime: float | None = None,
        new_style: bool = False, double_precision: bool = False,
    ) -> None:  # fmt: skip
        """One number. new_style: as a tensor, with double_precision one of float64."""
        self._add(summaries.scalar(tag, scalar_value, new_style, double_precision), global_step, walltime)

    def add_scalars(
        self, main_tag: str, tag_scalar_dict: Mapping[str, Any], global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Several numbers of one chart, each with a file of its own."""
        walltime = time.time() if walltime is None else walltime
        above = self._get_file_writer().get_logdir()
        assert self.all_writers is not None
        for tag, scalar_value in tag_scalar_dict.items():
            folder = f"{above}/{main_tag.replace('/', '_')}_{tag}"
            file = self.all_writers.get(folder) or self.all_writers.setdefault(folder, self._file(folder))
            file.add_summary(summaries.scalar(main_tag, scalar_value), global_step, walltime)

    def add_tensor(self, tag: str, tensor: Any, global_step: Any = None, walltime: float | None = None) -> None:
        """A whole tensor."""
        self._add(summaries.tensor(tag, tensor), global_step, walltime)

    def add_histogram(
        self, tag: str, values: Any, global_step: Any = None, bins: Any = "tensorflow", walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:  # fmt: skip
        """The histogram of numbers. bins: as numpy.histogram takes them; "tensorflow" is a geometric series."""
        wanted = self.default_bins if isinstance(bins, str) and bins == "tensorflow" else bins
        self._add(summaries.histogram(tag, values, wanted, max_bins), global_step, walltime)

    def add_histogram_raw(
        self, tag: str, min: float, max: float, num: float, sum: float, sum_squares: float,
        bucket_limits: Sequence[float], bucket_counts: Sequence[float], global_step: Any = None,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """A histogram that is there already. Raises ArgumentError if limits and counts are not as many."""
        if len(bucket_limits) != len(bucket_counts):
            raise ArgumentError("len(bucket_limits) != len(bucket_counts), see the document.")
        raw = summaries.histogram_raw(tag, min, max, num, sum, sum_squares, list(bucket_limits), list(bucket_counts))
        self._add(raw, global_step, walltime)

    def add_image(
        self, tag: str, img_tensor: Any, global_step: Any = None, walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:  # fmt: skip
        """An image of bytes, or of numbers from 0 to 1."""
        self._add(summaries.image(tag, img_tensor, dataformats), global_step, walltime)

    def add_images(
        self, tag: str, img_tensor: Any, global_step: Any = None, walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:  # fmt: skip
        """Several images, as one with eight in a row."""
        self._add(summaries.image(tag, img_tensor, dataformats), global_step, walltime)

    def add_figure(
        self, tag: str, figure: Any, global_step: Any = None, close: bool = True, walltime: float | None = None
    ) -> None:
        """A figure of matplotlib, or a list of them. close: they are closed after it."""
        import matplotlib.pyplot as plt  # an optional dependency
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        figures = figure if isinstance(figure, list) else [figure]
        images = []
        for one in figures:
            canvas: Any = FigureCanvasAgg(one)
            canvas.draw()
            images.append(np.asarray(canvas.buffer_rgba())[..., :3])
            if close:
                plt.close(one)
        if isinstance(figure, list):
            self.add_image(tag, np.stack(images), global_step, walltime, "NHWC")
        else:
            self.add_image(tag, images[0], global_step, walltime, "HWC")

    def add_audio(
        self, tag: str, snd_tensor: Any, global_step: Any = None, sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """A sound [samples], from -1 to 1."""
        self._add(summaries.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_text(self, tag: str, text_string: str, global_step: Any = None, walltime: float | None = None) -> None:
        """A text."""
        self._add(summaries.text(tag, text_string), global_step, walltime)

    def add_pr_curve(
        self, tag: str, labels: Any, predictions: Any, global_step: Any = None, num_thresholds: int = 127,
        weights: Any = None, walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Precision and recall of predictions in [0, 1] for labels 0 and 1."""
        self._add(summaries.pr_curve(tag, labels, predictions, num_thresholds, weights), global_step, walltime)

    def add_pr_curve_raw(
        self, tag: str, true_positive_counts: Any, false_positive_counts: Any, true_negative_counts: Any,
        false_negative_counts: Any, precision: Any, recall: Any, global_step: Any = None, num_thresholds: int = 127,
        weights: Any = None, walltime: float | None = None,
    ) -> None:  # fmt: skip
        """A curve that is there already."""
        counts = true_positive_counts, false_positive_counts, true_negative_counts, false_negative_counts
        self._add(summaries.pr_curve_raw(tag, *counts, precision, recall, num_thresholds), global_step, walltime)

    def add_custom_scalars(self, layout: Mapping[str, Mapping[str, Sequence[Any]]]) -> None:
        """How charts are laid out: {category: {chart: ["Multiline", tags]}}."""
        self._add(summaries.custom_scalars(layout), None, None)

    def add_custom_scalars_multilinechart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """One chart of several tags."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """One chart of a value, with what is below and above. Raises ArgumentError unless there are three tags."""
        if len(tags) != 3:
            raise ArgumentError(f"a margin chart has three tags (value, lower, upper), not {len(tags)}")
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_hparams(
        self, hparam_dict: Mapping[str, Any], metric_dict: Mapping[str, Any],
        hparam_domain_discrete: Mapping[str, Sequence[Any]] | None = None, run_name: str | None = None,
        global_step: Any = None,
    ) -> None:  # fmt: skip
        """Hyperparameters and what came of them, in a folder `run_name` (the time) below. Raises ArgumentError."""
        if not isinstance(hparam_dict, dict) or not isinstance(metric_dict, dict):
            raise ArgumentError("hparam_dict and metric_dict should be dictionary.")
        parts = summaries.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        folder = os.path.join(self._get_file_writer().get_logdir(), run_name or str(time.time()))
        with SummaryWriter(log_dir=folder) as below:
            for part in parts:
                below._add(part, global_step, None)
            for tag, metric in metric_dict.items():
                below.add_scalar(tag, metric, global_step)

    def _refused(self, what: str) -> Unsupported:
        return Unsupported(f"SummaryWriter: weft does not write {what} for TensorBoard")

    def add_graph(self, *arguments: Any, **named: Any) -> None:
        """Refused: raises Unsupported."""
        raise self._refused("graphs of models")

    def add_onnx_graph(self, *arguments: Any, **named: Any) -> None:
        """Refused: raises Unsupported."""
        raise self._refused("graphs of models")

    def add_embedding(self, *arguments: Any, **named: Any) -> None:
        """Refused: raises Unsupported."""
        raise self._refused("embeddings")

    def add_video(self, *arguments: Any, **named: Any) -> None:
        """Refused: raises Unsupported."""
        raise self._refused("videos")

    def add_mesh(self, *arguments: Any, **named: Any) -> None:
        """Refused: raises Unsupported."""
        raise self._refused("meshes")

    def add_image_with_boxes(self, *arguments: Any, **named: Any) -> None:
        """Refused: raises Unsupported."""
        raise self._refused("boxes in images")

    def flush(self) -> None:
        """Write what waits."""
        for file in (self.all_writers or {}).values():
            file.flush()

    def close(self) -> None:
        """Write what waits; what is added after it goes into another file."""
        self.flush()
        self.file_writer = self.all_writers = None

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
