"""The commands, one file each."""


def install_all():
    from . import gpumem, record, step, until
    from .question import install_questions

    gpumem.Gpumem()
    record.Record()
    step.Step()
    until.Until()
    install_questions(skip={"record", "step", "until"})
