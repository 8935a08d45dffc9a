"""Profiles are read or refused, with all that is wrong."""

import pytest

from scenarios.engine.profile import PROFILES_FOLDER, ProfileError, load_profile, shipped_profiles


@pytest.mark.parametrize("name", shipped_profiles())
def test_shipped_profiles_load_under_their_own_name(name):
    assert load_profile(name).name == name


def test_an_unknown_name_lists_the_shipped_ones():
    with pytest.raises(ProfileError, match=r"no profile 'h100'.*trtllm-a100-8b, vllm-a100-8b"):
        load_profile("h100")


def test_all_faults_of_a_file_are_named_at_once(tmp_path):
    text = (PROFILES_FOLDER / "vllm-a100-8b.toml").read_text()
    text = text.replace("step_ms = 11.75", 'step_ms = "fast"').replace("max_num_seqs = 256", "max_num_seqs = 0")
    file = tmp_path / "mine.toml"
    file.write_text(text.replace("kv_blocks", "blocks"))
    with pytest.raises(ProfileError) as error:
        load_profile(str(file))
    assert sorted(line.removeprefix(f"{file}: ") for line in str(error.value).splitlines()) == [
        "kv_blocks is missing",
        "max_num_seqs must be 1 or more, not 0",
        "step_ms must be a number, not 'fast'",
        "unknown key 'blocks'",
    ]


def test_one_request_has_to_fit_into_the_kv_cache(tmp_path):
    file = tmp_path / "small.toml"
    file.write_text((PROFILES_FOLDER / "vllm-a100-8b.toml").read_text().replace("kv_blocks = 25000", "kv_blocks = 9"))
    with pytest.raises(ProfileError, match="kv_blocks hold 144 tokens, fewer than one request"):
        load_profile(str(file))
