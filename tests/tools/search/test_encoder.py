"""Encoders: pooling, length and prefixes as the folder says; vectors do not depend on the batch; broken folders refused."""

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoTokenizer

from tests.tools.search.tiny_encoder import DIMENSION, POSITIONS, save_encoder, write_json
from tools.hashing import file_sha256
from tools.search.encoder import Encoder, EncoderError

TEXTS = ["Ann Lee", "the director of a stone harbor film", "", "port vale is a town", "who sings", "   "]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_encoder(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def encoder(folder):
    return Encoder(folder, device="cpu")


def states(folder, text):
    """[tokens, d]: what the model says of each token of one text, without our code."""
    tokens = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")
    with torch.no_grad():
        return AutoModel.from_pretrained(folder).eval()(**tokens).last_hidden_state[0].numpy()


def unit(vector):
    return vector / np.linalg.norm(vector)


def test_mean_pooling_with_length_one(folder, encoder):
    vectors = encoder.encode_passages(TEXTS)
    assert vectors.shape == (len(TEXTS), DIMENSION) and vectors.dtype == np.float32
    for text, vector in zip(TEXTS, vectors, strict=True):
        np.testing.assert_allclose(vector, unit(states(folder, text).mean(axis=0)), atol=1e-6)


def test_cls_pooling_without_normalisation(tmp_path):
    folder = save_encoder(tmp_path / "tiny", pooling="cls_token", normalize=False)
    encoder = Encoder(folder, device="cpu")
    for text, vector in zip(TEXTS, encoder.encode_queries(TEXTS), strict=True):
        np.testing.assert_allclose(vector, states(folder, text)[0], atol=1e-6)


def test_a_plain_folder_gets_mean_pooling_and_length_one(tmp_path):
    folder = save_encoder(tmp_path / "plain", pooling=None)
    vectors = Encoder(folder, device="cpu").encode_queries(TEXTS)
    np.testing.assert_allclose(vectors[0], unit(states(folder, TEXTS[0]).mean(axis=0)), atol=1e-6)


@pytest.mark.parametrize("batch_size", [1, 2, 5])
def test_a_vector_does_not_depend_on_the_texts_beside_it(folder, encoder, batch_size):
    other = Encoder(folder, device="cpu", batch_size=batch_size)
    expected = np.concatenate([encoder.encode_queries([text]) for text in TEXTS])
    np.testing.assert_allclose(other.encode_queries(TEXTS), expected, atol=1e-6)
    assert other.encode_queries([]).shape == (0, DIMENSION)


@pytest.mark.parametrize(
    ("name", "origin", "prefixes"),
    [
        ("e5-base-v2", "", ("query: ", "passage: ")),
        ("multilingual-e5-small", "", ("query: ", "passage: ")),
        ("model", "intfloat/E5-large", ("query: ", "passage: ")),
        ("models--intfloat--e5-base-v2/snapshots/0a1b", "", ("query: ", "passage: ")),
        ("model", "/e5/other", ("", "")),
        ("0be57e5a", "", ("", "")),
        ("e5-mistral-7b-instruct", "", ("", "")),
    ],
)
def test_e5_models_get_their_prefixes_and_length_one(tmp_path, name, origin, prefixes):
    folder = save_encoder(tmp_path / name, normalize=False)
    config = json.loads((folder / "config.json").read_text())
    write_json(folder / "config.json", config | {"_name_or_path": origin})
    encoder = Encoder(folder, device="cpu")
    assert (encoder.query_prefix, encoder.passage_prefix) == prefixes
    assert encoder.normalize == bool(prefixes[0])
    bare = Encoder(folder, device="cpu", query_prefix="", passage_prefix="")
    np.testing.assert_array_equal(
        encoder.encode_queries(["ann lee"]), bare.encode_queries([f"{prefixes[0]}ann lee"])
    )
    np.testing.assert_array_equal(
        encoder.encode_passages(["ann lee"]), bare.encode_passages([f"{prefixes[1]}ann lee"])
    )


def test_the_name_of_a_cached_snapshot_is_that_of_its_repository(tmp_path):
    folder = save_encoder(tmp_path / "models--org--small-model" / "snapshots" / "0a1b")
    assert Encoder(folder, device="cpu").name == "small-model"


def test_texts_are_cut_to_what_the_folder_the_caller_or_the_positions_allow(tmp_path, folder, encoder):
    assert encoder.max_tokens == POSITIONS
    short = Encoder(save_encoder(tmp_path / "short", max_seq_length=6), device="cpu")
    assert short.max_tokens == 6
    vectors = short.encode_passages(["ann lee port vale", "ann lee port vale stone harbor"])
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-6)
    assert Encoder(folder, device="cpu", max_tokens=5).max_tokens == 5
    assert Encoder(folder, device="cpu", max_tokens=1000).max_tokens == POSITIONS
    assert encoder.encode_passages(["ann " * 1000]).shape == (1, DIMENSION)
    with pytest.raises(ValueError, match="max_tokens is 2"):
        Encoder(folder, device="cpu", max_tokens=2)
    with pytest.raises(ValueError, match="batch_size is 0"):
        Encoder(folder, device="cpu", batch_size=0)


def test_positions_behind_a_padding_index_are_not_used(tmp_path):
    from transformers import RobertaConfig, RobertaModel

    folder = save_encoder(tmp_path / "roberta", pooling=None)
    config = RobertaConfig(
        vocab_size=40,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=POSITIONS,
        pad_token_id=1,
    )
    RobertaModel(config).save_pretrained(folder)
    encoder = Encoder(folder, device="cpu")
    assert encoder.max_tokens == POSITIONS - 2
    assert encoder.encode_queries(["ann " * 1000]).shape == (1, 8)


def test_odd_characters_are_no_error(encoder):
    assert np.isfinite(encoder.encode_queries(["\ud800", "\x00", "北京", "a\nb"])).all()


def test_threads_that_share_an_encoder_agree_with_one(folder, encoder):
    texts = [text * n for n in range(1, 5) for text in TEXTS]
    alone = [encoder.encode_queries([text]) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        for vector, expected in zip(
            pool.map(lambda text: encoder.encode_queries([text]), texts), alone, strict=True
        ):
            np.testing.assert_allclose(vector, expected, atol=1e-6)


def test_the_identity_names_weights_and_settings(folder, encoder):
    assert json.loads(json.dumps(encoder.identity)) == {
        "name": "tiny",
        "weights_sha256": {"model.safetensors": file_sha256(folder / "model.safetensors")},
        "dimension": DIMENSION,
        "pooling": "mean",
        "normalize": True,
        "max_tokens": POSITIONS,
        "query_prefix": "",
        "passage_prefix": "",
    }


def edit_weights(folder, change):
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def test_a_vector_that_is_not_finite_is_an_error_that_names_its_text(tmp_path):
    folder = save_encoder(tmp_path / "tiny")
    sings = AutoTokenizer.from_pretrained(folder).convert_tokens_to_ids("sings")
    edit_weights(
        folder, lambda tensors: tensors["embeddings.word_embeddings.weight"][sings].fill_(float("nan"))
    )
    with pytest.raises(EncoderError, match=r"tiny gives NaN .* 1 of 3 texts, first for text 1 .*'who sings'"):
        Encoder(folder, device="cpu").encode_passages(["ann lee", "who sings", "town"])


def break_json(path):
    path.write_text("{", encoding="utf-8")


BREAKS = {
    "no such folder": lambda folder: folder.rename(folder.with_name("elsewhere")),
    r"no \*\.safetensors": lambda folder: (folder / "model.safetensors").rename(folder / "model.bin"),
    "not an encoder that transformers loads": lambda folder: (folder / "config.json").unlink(),
    "tiny.modules.json: cannot be read": lambda folder: break_json(folder / "modules.json"),
    "modules.json: a list of": lambda folder: write_json(folder / "modules.json", [{"type": "x"}]),
    "modules.json: module Dense is not supported": lambda folder: write_json(
        folder / "modules.json", [{"type": "sentence_transformers.models.Dense", "path": "2_Dense"}]
    ),
    "1_Pooling.config.json: exactly one of": lambda folder: write_json(
        folder / "1_Pooling" / "config.json", {"pooling_mode_max_tokens": True}
    ),
    "sentence_bert_config.json: a JSON object": lambda folder: write_json(
        folder / "sentence_bert_config.json", []
    ),
    "the weights lack 1 tensors, e.g. embeddings.LayerNorm.bias": lambda folder: edit_weights(
        folder, lambda tensors: tensors.pop("embeddings.LayerNorm.bias")
    ),
}


@pytest.mark.parametrize("problem", BREAKS)
def test_a_broken_folder_is_refused_with_the_file(tmp_path, problem):
    folder = save_encoder(tmp_path / "tiny")
    BREAKS[problem](folder)
    with pytest.raises(EncoderError, match=problem):
        Encoder(folder, device="cpu")


def test_weights_without_the_unused_pooler_are_complete(tmp_path, encoder):
    folder = save_encoder(tmp_path / "tiny")
    edit_weights(folder, lambda t: [t.pop(f"pooler.dense.{part}") for part in ("weight", "bias")])
    np.testing.assert_array_equal(
        Encoder(folder, device="cpu").encode_queries(TEXTS), encoder.encode_queries(TEXTS)
    )


def test_a_model_with_a_decoder_is_refused(tmp_path):
    from transformers import T5Config, T5Model

    folder = save_encoder(tmp_path / "t5")
    T5Model(T5Config(vocab_size=40, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)).save_pretrained(
        folder
    )
    with pytest.raises(EncoderError, match="t5 has a decoder"):
        Encoder(folder, device="cpu")
