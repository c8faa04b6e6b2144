"""When steps are a loop: pure logic over what was done and what came back, and the faces over it."""
