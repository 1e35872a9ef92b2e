"""The node ``settings`` of a configuration or a record: where hyper-parameters come from, and what they cost."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, NonNegativeInt


class SettingsNode(BaseModel):
    """What was tuned, and in how many trials, if anything was."""

    model_config = ConfigDict(strict=True, extra="forbid")

    name: Literal["faithful", "tuned"]
    trials: NonNegativeInt | None = None
    hyperparameters: list[str] | None = None

    @property
    def sentence(self) -> str:
        """For a person.

        >>> SettingsNode(name="tuned", trials=16, hyperparameters=["lr", "mu"]).sentence
        'tuned: lr, mu in 16 trials'
        """
        if self.name == "faithful":
            return "faithful: as the YAML of the method has them"
        if not self.hyperparameters:
            return "tuned: there is nothing to tune"
        return f"tuned: {', '.join(self.hyperparameters)} in {self.trials} trials"
